#include "bench/rivals/child_contender.h"

#include <exception>
#include <utility>

namespace kmem::bench {

namespace {

class ChildLoop final : public Loop {
 public:
  ChildLoop(std::shared_ptr<Child> child, std::uint32_t loop)
      : child_(std::move(child)), loop_(loop) {}
  // What it held is given back; a child that is gone holds nothing.
  ~ChildLoop() override {
    try {
      child_->ask(request(wire::Ask::close));
    } catch (const std::exception&) {
    }
  }
  ChildLoop(const ChildLoop&) = delete;
  ChildLoop& operator=(const ChildLoop&) = delete;

  Outcome run(const Turn& turn) override {
    wire::Request run = request(wire::Ask::run);
    run.turn = turn;
    wire::Reply reply = child_->ask(run);
    return {reply.head.cost, std::move(reply.values)};
  }

 private:
  wire::Request request(wire::Ask ask) const {
    wire::Request request;
    request.ask = ask;
    request.loop = loop_;
    return request;
  }

  std::shared_ptr<Child> child_;
  std::uint32_t loop_;
};

}  // namespace

std::unique_ptr<Loop> ChildContender::loop(const Job& job) const {
  wire::Request request;
  request.ask = wire::Ask::open;
  request.job = job;
  const wire::Reply reply = child_->ask(request);
  if (reply.head.answer == wire::Answer::none) return nullptr;
  return std::make_unique<ChildLoop>(child_, reply.head.loop);
}

}  // namespace kmem::bench
