// The program's path is the first argument, the source tree's the second, that of the folder of
// mallocs to preload the third.
#include "tests/bench/cli.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc < 4) return std::fputs("usage: cli_test KMEM-BENCH SOURCE-ROOT PRELOADS\n", stderr), 2;
  kmem::bench::test_program = argv[1];
  kmem::bench::test_arguments = {argv[2], argv[3]};
  return RUN_ALL_TESTS();
}
