// The emulated cards: QUIRE_EMULATED_CARDS of them, 1 if it is not set. Memory in use on each: by this
// process, or by all processes that name the same file in QUIRE_EMULATED_CARD. QUIRE_EMULATED_CARD_MIB is the
// size of all, or a list with one size for each.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { kQuireMaxEmulatedCards = 8 };

// Implemented in the driver library and used by the runtime: both allocate the memory of the cards. take
// returns 0 if the card is full.
int quire_emulated_cards(void);
int quire_emulated_take(int card, size_t bytes);
void quire_emulated_give(int card, size_t bytes);
size_t quire_emulated_free(int card);
size_t quire_emulated_total(int card);

#ifdef __cplusplus
}
#endif
