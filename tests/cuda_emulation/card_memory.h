// Memory in use on the emulated card: by this process, or by all processes that name the same file in
// QUIRE_EMULATED_CARD.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// Implemented in the driver library and used by the runtime: both allocate the memory of one card. take
// returns 0 if the card is full.
int quire_emulated_take(size_t bytes);
void quire_emulated_give(size_t bytes);
size_t quire_emulated_free(void);
size_t quire_emulated_total(void);

#ifdef __cplusplus
}
#endif
