// Forms of all block types. A card has a copy of this table, so it is a constant expression.
#pragma once

#include "kernels/interface/block_codes.h"

namespace quire::kernels {

// Values are shifted by their zero, so that they are unsigned.
inline constexpr uint8_t kIq4Values[16] = {0,   23,  44,  62,  78,  92,  105, 117,
                                           128, 140, 152, 165, 180, 196, 216, 240};
inline constexpr uint8_t kFp4Values[16] = {12, 13, 14, 15, 16, 18, 20, 24, 12, 11, 10, 9, 8, 6, 4, 0};
// Index of a magnitude, and from 4 or 8 on its negative.
inline constexpr uint8_t kIq2Values[16] = {51, 68, 86, 43, 35, 18, 0, 43};
inline constexpr uint8_t kIq3XxsValues[16] = {66, 74, 82, 90, 98, 106, 114, 124,
                                              58, 50, 42, 34, 26, 18,  10,  0};
inline constexpr uint8_t kIq3SValues[16] = {16, 18, 20, 22, 24, 26, 28, 30, 14, 12, 10, 8, 6, 4, 2, 0};
// Eight times -1, 0, 1, plus 1 or, from 4 on, minus 1.
inline constexpr uint8_t kIq1Values[16] = {2, 10, 18, 9, 0, 8, 16, 9};

inline constexpr BlockForm kBlockForms[kNumBlockTypes] = {
    BlockForm{0},                                          // none
    {4, 32, BlockTerms::half, 8},                          // Q4_0
    {4, 32, BlockTerms::half_min},                         // Q4_1
    {5, 32, BlockTerms::half, 16},                         // Q5_0
    {5, 32, BlockTerms::half_min},                         // Q5_1
    {8, 32, BlockTerms::half, 128},                        // Q8_0
    {2, 16, BlockTerms::nibbles_min},                      // Q2_K
    {3, 16, BlockTerms::bytes, 4},                         // Q3_K
    {4, 32, BlockTerms::bytes_min},                        // Q4_K
    {5, 32, BlockTerms::bytes_min},                        // Q5_K
    {6, 16, BlockTerms::bytes, 32},                        // Q6_K
    {3, 16, BlockTerms::bytes, 9, kIq1Values, 0.125f},     // IQ1_S
    {3, 16, BlockTerms::bytes, 9, kIq1Values, 0.125f},     // IQ1_M
    {3, 16, BlockTerms::bytes, 43, kIq2Values, 0.125f},    // IQ2_XXS
    {3, 16, BlockTerms::bytes, 43, kIq2Values, 0.125f},    // IQ2_XS
    {3, 16, BlockTerms::bytes, 43, kIq2Values, 0.125f},    // IQ2_S
    {4, 32, BlockTerms::bytes, 62, kIq3XxsValues, 0.25f},  // IQ3_XXS
    {4, 32, BlockTerms::bytes, 15, kIq3SValues},           // IQ3_S
    {4, 32, BlockTerms::half, 127, kIq4Values},            // IQ4_NL
    {4, 32, BlockTerms::bytes, 127, kIq4Values},           // IQ4_XS
    {2, 32, BlockTerms::half, 1},                          // TQ1_0
    {2, 32, BlockTerms::half, 1},                          // TQ2_0
    {4, 32, BlockTerms::e8m0, 12, kFp4Values, 0.5f},       // MXFP4
    {4, 16, BlockTerms::e4m3, 12, kFp4Values, 0.5f},       // NVFP4
    {2, 32, BlockTerms::half, 1},                          // Q1_0
    {2, 32, BlockTerms::half, 1},                          // Q2_0
};

}  // namespace quire::kernels
