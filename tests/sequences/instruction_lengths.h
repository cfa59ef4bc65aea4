// Lengths of the few x86-64 instructions that restartable sequences are made of, so that a test can
// find every boundary between two of them. An instruction that it does not know gives 0: add it.
#pragma once

#include <cstddef>
#include <cstdint>

namespace kmem::percpu {

// Bytes of a ModRM operand: the byte itself, SIB and displacement.
inline std::size_t modrm_length(const std::uint8_t* at) {
  const unsigned mod = at[0] >> 6, rm = at[0] & 7;
  if (mod == 3) return 1;
  std::size_t length = 1;
  if (rm == 4) {
    length += 1;
    if (mod == 0 && (at[1] & 7) == 5) length += 4;  // no base register
  }
  if (mod == 0 && rm == 5) length += 4;  // relative to rip
  if (mod == 1) length += 1;
  if (mod == 2) length += 4;
  return length;
}

inline std::size_t two_byte_length(const std::uint8_t* at) {
  const std::uint8_t opcode = at[1];
  if ((opcode & 0xf0) == 0x80) return 6;                                    // jcc rel32
  const bool known = (opcode & 0xf0) == 0x40 ||                             // cmovcc
                     opcode == 0x10 || opcode == 0x11 || opcode == 0x16 ||  // movups, movhps
                     opcode == 0x28 || opcode == 0x29 ||                    // movaps
                     opcode == 0x6c || opcode == 0x6e || opcode == 0x7e ||  // punpck, movq
                     opcode == 0xb7 || opcode == 0xd4 || opcode == 0xd6 ||
                     opcode == 0x1f;  // movzx, paddq, nop
  return known ? 2 + modrm_length(at + 2) : 0;
}

inline std::size_t one_byte_length(const std::uint8_t* at) {
  const std::uint8_t opcode = at[0];
  if ((opcode & 0xf0) == 0x70 || opcode == 0xeb) return 2;                 // jcc, jmp rel8
  if (opcode == 0xe9) return 5;                                            // jmp rel32
  if (opcode < 0x40 && (opcode & 7) < 4) return 1 + modrm_length(at + 1);  // add, or, and, cmp ...
  if (opcode < 0x40 && (opcode & 7) == 4) return 2;                        // ... al, imm8
  if (opcode < 0x40 && (opcode & 7) == 5) return 5;                        // ... eax, imm32
  switch (opcode) {
    case 0x85:  // test
    case 0x88:
    case 0x89:
    case 0x8b:  // mov
    case 0x8d:  // lea
    case 0xff:  // inc, dec
    case 0xd1:  // shift by one
      return 1 + modrm_length(at + 1);
    case 0x80:  // arithmetic with imm8
    case 0x83:
    case 0xc1:  // shift
      return 2 + modrm_length(at + 1);
    case 0x81:  // arithmetic with imm32
    case 0xc7:  // mov imm32
      return 5 + modrm_length(at + 1);
    case 0xf6:  // test imm8
      return (at[1] >> 3 & 7) == 0 ? 2 + modrm_length(at + 1) : 0;
    case 0xa8:  // test al, imm8
      return 2;
    default:
      return 0;
  }
}

inline std::size_t instruction_length(const std::uint8_t* at) {
  std::size_t prefixes = 0;
  while (at[prefixes] == 0x66 || at[prefixes] == 0xf2 || at[prefixes] == 0xf3 ||
         at[prefixes] == 0x64) {
    ++prefixes;
  }
  if ((at[prefixes] & 0xf0) == 0x40) ++prefixes;  // REX
  const std::uint8_t* opcode = at + prefixes;
  const std::size_t rest = opcode[0] == 0x0f ? two_byte_length(opcode) : one_byte_length(opcode);
  return rest == 0 ? 0 : prefixes + rest;
}

}  // namespace kmem::percpu
