// The form in which JSON is drawn. A schema allows a value in many spellings; a form leaves some of them out.
#pragma once

#include <cstdint>

namespace quire {

// The values equal QUIRE_JSON_SPACE_*.
enum class JsonSpace : uint8_t {
  spaced,   // one blank after a colon and a comma
  compact,  // none
  printed,  // as any printer writes it: none, one blank, or a line end with indentation
};

// The texts of a schema that a constraint allows. The default allows every text that the schema allows; every
// other form allows a part of them, and at least one if the schema allows one.
struct JsonForm {
  bool in_order = false;        // members come in the order of the schema, unnamed ones last
  bool closed = false;          // only named members, unless the schema opens an object in its own words
  bool plain_integers = false;  // no fraction of zeros, no exponent; other exponents after one digit only
  JsonSpace space = JsonSpace::printed;
  bool operator==(const JsonForm&) const = default;
};

// The form in which jobs draw unless a request sets another.
inline constexpr JsonForm kDrawnForm = {true, true, true, JsonSpace::spaced};

}  // namespace quire
