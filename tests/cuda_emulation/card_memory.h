// How much of the emulated card is taken: of this process, or of all that name the same file in
// QUIRE_EMULATED_CARD.
#pragma once

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// In the library of the driver, which the runtime asks: both give memory of one card. take: 0 where it is
// full.
int quire_emulated_take(size_t bytes);
void quire_emulated_give(size_t bytes);
size_t quire_emulated_free(void);
size_t quire_emulated_total(void);

#ifdef __cplusplus
}
#endif
