/* A step of a batch: scheduled, run, checked row by row, committed. */
#ifndef QUIRE_SOAK_STEP_H
#define QUIRE_SOAK_STEP_H

#include "soak_world.h"

void soak_step(soak_worker *worker);

#endif
