/* Probabilities are in parts per billion: 0 never, 1,000,000,000 always. A roll of the dice is below it that often. */
#ifndef CHANCE_P4
#define CHANCE_P4

typedef bit<32> ppb_t;

const bit<32> LARGEST_ROLL = 999999999;

#endif
