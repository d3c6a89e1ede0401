/*
 * Probabilities are in parts per billion (ppb): 0 is never, 1,000,000,000 is always. An event with probability p happens when a
 * random draw from 0 to MAX_DRAW is below p.
 */
#ifndef CHANCE_P4
#define CHANCE_P4

typedef bit<32> ppb_t;

const bit<32> MAX_DRAW = 999999999;

#endif
