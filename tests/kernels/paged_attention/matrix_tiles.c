#include "matrix_tiles.h"

static long products;

#if defined(__linux__) && defined(__x86_64__)

#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

enum { TILES = 8, ROWS = 16, ROW_BYTES = 64, LANES = ROW_BYTES / 4 };

typedef struct tile {
  unsigned rows, row_bytes;
  union {
    unsigned char bytes[ROWS][ROW_BYTES];
    float f32[ROWS][LANES];
    uint16_t bf16[ROWS][2 * LANES];
  } of;
} tile;

static tile tiles[TILES];
static bool configured;

/* The address of an instruction's memory operand, and the step from row to row. */
typedef struct operand {
  unsigned char *at;
  int64_t stride;
  size_t length; /* bytes of ModRM, SIB and displacement */
} operand;

static int64_t register_of(const ucontext_t *context, unsigned number) {
  static const int names[16] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP,
                                REG_RSI, REG_RDI, REG_R8,  REG_R9,  REG_R10, REG_R11,
                                REG_R12, REG_R13, REG_R14, REG_R15};
  return context->uc_mcontext.gregs[names[number]];
}

/* An operand with a base register; with SIB the scaled index is the stride. */
static operand decode(const ucontext_t *context, const unsigned char *modrm, unsigned index_high,
                      unsigned base_high) {
  const unsigned mod = modrm[0] >> 6;
  const bool has_sib = (modrm[0] & 7) == 4;
  operand found = {.length = has_sib ? 2 : 1};
  unsigned base = (modrm[0] & 7) | base_high;
  if (has_sib) {
    const unsigned index = (modrm[1] >> 3 & 7) | index_high;
    base = (modrm[1] & 7) | base_high;
    found.stride = index == 4 ? 0 : register_of(context, index) << (modrm[1] >> 6);
  }
  int32_t shift = 0;
  if (mod == 1) {
    shift = modrm[found.length] < 0x80 ? modrm[found.length] : modrm[found.length] - 0x100;
    found.length += 1;
  } else if (mod == 2) {
    memcpy(&shift, modrm + found.length, sizeof shift);
    found.length += sizeof shift;
  } else if ((base & 7) == 5) {
    abort(); /* no base register: compilers do not make it of these intrinsics */
  }
  const int64_t address = register_of(context, base) + shift;
  memcpy(&found.at, &address, sizeof found.at);
  return found;
}

static void load_shapes(const unsigned char *from) {
  memset(tiles, 0, sizeof tiles);
  configured = from[0] == 1;
  for (int i = 0; i < TILES && configured; ++i) {
    uint16_t row_bytes;
    memcpy(&row_bytes, from + 16 + sizeof row_bytes * (size_t)i, sizeof row_bytes);
    tiles[i].row_bytes = row_bytes;
    tiles[i].rows = from[48 + i];
    if (row_bytes > ROW_BYTES || row_bytes % 4 != 0 || tiles[i].rows > ROWS) {
      abort();
    }
  }
}

static float widen(uint16_t bf16) {
  const uint32_t bits = (uint32_t)bf16 << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return fpclassify(value) == FP_SUBNORMAL ? 0.0f : value;
}

/* Even and odd elements in sums of their own, which then meet. */
static void multiply(tile *c, const tile *a, const tile *b) {
  if (a->row_bytes != 4 * b->rows || a->rows != c->rows || b->row_bytes != c->row_bytes) {
    abort();
  }
  for (size_t m = 0; m < c->rows; ++m) {
    for (size_t n = 0; n < c->row_bytes / 4; ++n) {
      float even = 0.0f;
      float odd = 0.0f;
      for (size_t k = 0; k < b->rows; ++k) {
        even = fmaf(widen(a->of.bf16[m][2 * k]), widen(b->of.bf16[k][2 * n]), even);
        odd = fmaf(widen(a->of.bf16[m][2 * k + 1]), widen(b->of.bf16[k][2 * n + 1]), odd);
      }
      c->of.f32[m][n] += even + odd;
    }
  }
  ++products;
}

static void move_rows(tile *t, operand memory, bool loads) {
  if (loads) {
    memset(&t->of, 0, sizeof t->of);
  }
  for (unsigned row = 0; row < t->rows; ++row) {
    unsigned char *const at = memory.at + (int64_t)row * memory.stride;
    memcpy(loads ? t->of.bytes[row] : at, loads ? at : t->of.bytes[row], t->row_bytes);
  }
}

/* Carries out the instruction at `code`; its length, or 0 if it is none of these. */
static size_t carry_out(const ucontext_t *context, const unsigned char *code) {
  enum { NONE = 0, F3 = 2, F2 = 3, OPCODES = 2 };
  if (code[0] != 0xc4 || (code[1] & 0x1f) != OPCODES) {
    return 0;
  }
  const unsigned base_high = (code[1] & 0x20) != 0 ? 0 : 8;
  const unsigned index_high = (code[1] & 0x40) != 0 ? 0 : 8;
  const unsigned prefix = code[2] & 3;
  const unsigned second = ~((unsigned)code[2] >> 3) & 15;
  const unsigned char *const modrm = code + 4;
  const unsigned number = modrm[0] >> 3 & 7;
  const bool in_memory = modrm[0] >> 6 != 3;
  const operand memory =
      in_memory ? decode(context, modrm, index_high, base_high) : (operand){.length = 1};
  if (code[3] == 0x49 && prefix == NONE && in_memory) {
    load_shapes(memory.at);
  } else if (code[3] == 0x49 && prefix == NONE) {
    configured = false;
  } else if (!configured) {
    return 0;
  } else if (code[3] == 0x49 && prefix == F2 && !in_memory) {
    memset(&tiles[number].of, 0, sizeof tiles[number].of);
  } else if (code[3] == 0x4b && (prefix == F2 || prefix == F3) && in_memory) {
    move_rows(&tiles[number], memory, prefix == F2);
  } else if (code[3] == 0x5c && prefix == F3 && !in_memory && second < TILES) {
    multiply(&tiles[number], &tiles[modrm[0] & 7], &tiles[second]);
  } else {
    return 0;
  }
  return 4 + memory.length;
}

static void on_illegal(int number, siginfo_t *info, void *user) {
  (void)info;
  ucontext_t *const context = user;
  const int64_t at = context->uc_mcontext.gregs[REG_RIP];
  const unsigned char *code;
  memcpy(&code, &at, sizeof code);
  const size_t length = carry_out(context, code);
  if (length == 0) {
    (void)signal(number, SIG_DFL); /* it comes again, and ends the test */
  }
  context->uc_mcontext.gregs[REG_RIP] += (int64_t)length;
}

/* In place of the library's, for kernels that ask for permission. */
long syscall(long sysno, ...) {
  (void)sysno;
  return 0;
}

bool matrix_tiles_emulate(void) {
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = on_illegal;
  action.sa_flags = SA_SIGINFO;
  return sigaction(SIGILL, &action, NULL) == 0;
}

#else

bool matrix_tiles_emulate(void) {
  return false;
}

#endif

long matrix_tiles_products(void) {
  return products;
}
