/*
 * Matrix tiles (AMX) for processors without: the instructions that kernels use are carried out by a
 * handler of SIGILL, by their definition in Intel's manual (TILELOADD, TILESTORED, TILEZERO,
 * TDPBF16PS, LDTILECFG, TILERELEASE). One thread at a time. The system's permission is not asked.
 */
#ifndef QUIRE_TESTS_MATRIX_TILES_H
#define QUIRE_TESTS_MATRIX_TILES_H

#include <stdbool.h>

/* False where it cannot be done: another processor or system. */
bool matrix_tiles_emulate(void);

/* How many products of tiles were carried out so far. */
long matrix_tiles_products(void);

#endif
