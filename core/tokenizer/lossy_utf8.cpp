#include "core/tokenizer/lossy_utf8.h"

namespace quire {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

uint8_t length_from_lead(unsigned char lead) {
  if (lead >= 0xc2 && lead <= 0xdf) return 2;
  if (lead >= 0xe0 && lead <= 0xef) return 3;
  if (lead >= 0xf0 && lead <= 0xf4) return 4;
  return 0;
}

}  // namespace

void LossyUtf8::push(std::string_view bytes, std::string& out) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (num_held_ > 0) {
      if (continues(byte)) {
        add(c, out);
        continue;
      }
      finish(out);
    }
    start(byte, out);
  }
}

bool LossyUtf8::finish(std::string& out) {
  if (num_held_ == 0) return false;
  out.append(kReplacement);
  num_held_ = 0;
  return true;
}

void LossyUtf8::push_each(char byte, std::string& out) {
  if (num_held_ > 0 && continues(static_cast<unsigned char>(byte))) return add(byte, out);
  finish_each(out);
  start(static_cast<unsigned char>(byte), out);
}

bool LossyUtf8::finish_each(std::string& out) {
  const bool broken = num_held_ > 0;
  for (; num_held_ > 0; --num_held_) out.append(kReplacement);
  return broken;
}

void LossyUtf8::add(char byte, std::string& out) {
  held_[num_held_++] = byte;
  if (num_held_ < length_) return;
  out.append(held_.data(), num_held_);
  num_held_ = 0;
}

void LossyUtf8::start(unsigned char lead, std::string& out) {
  if (lead < 0x80) {
    out.push_back(static_cast<char>(lead));
    return;
  }
  length_ = length_from_lead(lead);
  if (length_ == 0) {
    out.append(kReplacement);
    return;
  }
  held_[0] = static_cast<char>(lead);
  num_held_ = 1;
}

bool LossyUtf8::continues(unsigned char byte) const {
  unsigned char first = 0x80;
  unsigned char last = 0xbf;
  if (num_held_ == 1) {
    switch (static_cast<unsigned char>(held_[0])) {
      case 0xe0:
        first = 0xa0;
        break;  // smaller values are overlong forms
      case 0xed:
        last = 0x9f;
        break;  // larger values are surrogates
      case 0xf0:
        first = 0x90;
        break;  // smaller values are overlong forms
      case 0xf4:
        last = 0x8f;
        break;  // larger values are above U+10FFFF
      default:
        break;
    }
  }
  return byte >= first && byte <= last;
}

}  // namespace quire
