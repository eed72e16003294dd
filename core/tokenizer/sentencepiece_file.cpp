#include "core/tokenizer/sentencepiece_file.h"

#include <cmath>

#include "core/base/error.h"
#include "core/base/utf8.h"
#include "core/tokenizer/protobuf_reader.h"

namespace quire {
namespace {

// Field numbers of sentencepiece_model.proto.
enum ModelField : uint32_t { kPieces = 1, kTrainerSpec = 2, kNormalizerSpec = 3, kDenormalizerSpec = 5 };
enum PieceField : uint32_t { kText = 1, kScore = 2, kType = 3 };
enum TrainerField : uint32_t {
  kModelType = 3,
  kWhitespaceAsSuffix = 24,
  kByteFallback = 35,
  kBosId = 41,
  kEosId = 42,
  kPadId = 43,
  kUnknownSurface = 44
};
enum NormalizerField : uint32_t {
  kCharsmap = 2,
  kDummyPrefix = 3,
  kExtraWhitespaces = 4,
  kEscapeWhitespaces = 5
};

using File = SentencePieceFile;

constexpr size_t kMaxPieceBytes = 512;  // longer pieces would make encoding slow for every text

std::string read_text(const ProtobufReader& reader, const std::string& where) {
  const std::string_view text = reader.bytes();
  if (find_invalid_utf8(text) != text.size())
    throw Error(ErrorCode::format, "{}: a text is not UTF-8", where);
  return std::string(text);
}

File::Piece read_piece(std::string_view message, const std::string& where) {
  File::Piece piece;
  ProtobufReader reader(message, where);
  while (reader.next()) {
    if (reader.field() == kText) piece.text = read_text(reader, where);
    if (reader.field() == kScore) piece.score = reader.number();
    if (reader.field() != kType) continue;
    if (reader.integer() < 1 || reader.integer() > 6) {
      throw Error(ErrorCode::format, "{}: piece type {} is unknown", where, reader.integer());
    }
    piece.type = static_cast<File::PieceType>(reader.integer());
  }
  if (piece.text.empty()) throw Error(ErrorCode::format, "{}: a piece has no text", where);
  if (piece.text.size() > kMaxPieceBytes) {
    throw Error(ErrorCode::unsupported, "{}: a piece of {} bytes, more than {}", where, piece.text.size(),
                kMaxPieceBytes);
  }
  if (!std::isfinite(piece.score)) {
    throw Error(ErrorCode::format, "{}: the score of \"{}\" is not finite", where, printable(piece.text));
  }
  if (piece.type == File::PieceType::unused) {
    throw Error(ErrorCode::unsupported, "{}: the unused piece \"{}\" is not supported", where,
                printable(piece.text));
  }
  return piece;
}

int32_t read_id(const ProtobufReader& reader, const std::string& where) {
  const auto id = static_cast<int64_t>(reader.integer());
  if (id < -1 || id > INT32_MAX) throw Error(ErrorCode::format, "{}: the id {} is out of range", where, id);
  return static_cast<int32_t>(id);
}

void read_trainer_spec(std::string_view message, const std::string& where, File& file) {
  ProtobufReader reader(message, where);
  while (reader.next()) {
    if (reader.field() == kModelType) {
      if (reader.integer() != 1 && reader.integer() != 2) {
        throw Error(ErrorCode::unsupported, "{}: model type {} is not supported; unigram (1) and BPE (2) are",
                    where, reader.integer());
      }
      file.algorithm = static_cast<File::Algorithm>(reader.integer());
    }
    if (reader.field() == kWhitespaceAsSuffix && reader.flag()) {
      throw Error(ErrorCode::unsupported, "{}: treat_whitespace_as_suffix is not supported", where);
    }
    if (reader.field() == kByteFallback) file.byte_fallback = reader.flag();
    if (reader.field() == kBosId) file.bos_id = read_id(reader, where);
    if (reader.field() == kEosId) file.eos_id = read_id(reader, where);
    if (reader.field() == kPadId) file.pad_id = read_id(reader, where);
    if (reader.field() == kUnknownSurface) file.unknown_surface = read_text(reader, where);
  }
}

void read_normalizer_spec(std::string_view message, const std::string& where, File& file) {
  ProtobufReader reader(message, where);
  while (reader.next()) {
    if (reader.field() == kCharsmap) file.charsmap = std::string(reader.bytes());
    if (reader.field() == kDummyPrefix) file.add_dummy_prefix = reader.flag();
    if (reader.field() == kExtraWhitespaces) file.remove_extra_whitespaces = reader.flag();
    if (reader.field() == kEscapeWhitespaces) file.escape_whitespaces = reader.flag();
  }
}

void refuse_denormalizer(std::string_view message, const std::string& where) {
  ProtobufReader reader(message, where);
  while (reader.next()) {
    if (reader.field() != kCharsmap || reader.bytes().empty()) continue;
    throw Error(ErrorCode::unsupported,
                "{}: replacements made while decoding (denormalizer_spec) are not supported", where);
  }
}

}  // namespace

SentencePieceFile read_sentencepiece_file(std::string_view contents, const std::string& where) {
  File file;
  ProtobufReader reader(contents, where);
  while (reader.next()) {
    if (reader.field() == kPieces) file.pieces.push_back(read_piece(reader.bytes(), where));
    if (reader.field() == kTrainerSpec) read_trainer_spec(reader.bytes(), where, file);
    if (reader.field() == kNormalizerSpec) read_normalizer_spec(reader.bytes(), where, file);
    if (reader.field() == kDenormalizerSpec) refuse_denormalizer(reader.bytes(), where);
  }
  if (file.pieces.empty()) throw Error(ErrorCode::format, "{}: no pieces", where);
  return file;
}

}  // namespace quire
