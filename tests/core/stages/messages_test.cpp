// Messages come back as they were written; a batch that is not sound in itself is refused.
#include "core/stages/messages.h"

#include <functional>
#include <random>

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/support/expect_error.h"

namespace quire::testing {
namespace {

ExecutorLimits limits() {
  ExecutorLimits limits;
  limits.max_tokens = 8;
  limits.max_sequences = 3;
  limits.max_pages_per_sequence = 4;
  limits.num_pages = 10;
  limits.page_tokens = 4;
  limits.hidden_size = 16;
  limits.windows = {{8, 5}};
  limits.num_state_slots = 6;
  return limits;
}

Batch sound_batch() {
  Batch batch;
  batch.token_ids = {1, 2, 3, 4};
  batch.positions = {4, 5, 6, 2};
  batch.sequence_of_token = {0, 0, 0, 1};
  batch.sequence_starts = {0, 3, 4};
  batch.kv_lengths = {7, 3};
  batch.page_table_stride = 2;
  batch.num_page_tables = 2;
  batch.page_table = {9, 1, 2, 0, 4, 3, 1, 0};
  batch.copies = {{PageId{0}, PageId{9}, 3, 0}, {PageId{4}, PageId{0}, 4, 1}};
  batch.state_copies = {{5, 0}};
  batch.state_slots = {0, 5};
  batch.state_banks = {3, 0};
  return batch;
}

Batch passed_on(const Batch& batch, int32_t num_pages = 10) {
  WireWriter writer;
  write_batch(batch, writer);
  WireReader reader(writer.bytes());
  Batch read;
  read_batch(reader, limits(), num_pages, read);
  reader.finish();
  return read;
}

TEST(Messages, ABatchComesBack) {
  const Batch batch = sound_batch();
  const Batch read = passed_on(batch);
  EXPECT_EQ(read.positions, batch.positions);
  EXPECT_EQ(read.sequence_of_token, batch.sequence_of_token);
  EXPECT_EQ(read.sequence_starts, batch.sequence_starts);
  EXPECT_EQ(read.kv_lengths, batch.kv_lengths);
  EXPECT_EQ(read.page_table, batch.page_table);
  EXPECT_EQ(read.num_tokens(), 4);
  ASSERT_EQ(read.copies.size(), 2U);
  EXPECT_EQ(read.copies[1].source, PageId{4});
  EXPECT_EQ(read.copies[1].num_tokens, 4);
  EXPECT_EQ(read.copies[1].table, 1);
  EXPECT_EQ(read.state_copies.size(), 1U);
  EXPECT_EQ(read.state_slots, batch.state_slots);
  EXPECT_EQ(read.state_banks, batch.state_banks);
}

TEST(Messages, EntriesThatNoTokenReadsBecomeZero) {
  Batch batch = sound_batch();
  batch.page_table[3] = 1 << 30;  // the sequence has one page
  EXPECT_EQ(passed_on(batch).page_table[3], 0);
}

TEST(Messages, AHostileBatchIsRefused) {
  const std::vector<std::function<void(Batch&)>> changes = {
      [](Batch& b) { b.sequence_starts = {}; },
      [](Batch& b) {
        b.sequence_starts = {1, 3, 4};
      },
      [](Batch& b) {
        b.sequence_starts = {0, 4, 3};
      },
      [](Batch& b) {
        b.sequence_starts = {0, -1, 4};
      },
      [](Batch& b) {
        b.sequence_starts = {0, 3, 9};
      },
      [](Batch& b) {
        b.sequence_starts = {0, 0, 0};
      },
      [](Batch& b) { b.kv_lengths = {}; },
      [](Batch& b) {
        b.kv_lengths = {2, 3};
      },
      [](Batch& b) {
        b.kv_lengths = {17, 3};
      },
      [](Batch& b) {
        b.kv_lengths = {INT32_MAX, 3};
      },
      [](Batch& b) {
        b.kv_lengths = {7, 3, 3, 3};
      },
      [](Batch& b) { b.page_table_stride = 0; },
      [](Batch& b) { b.page_table_stride = 5; },
      [](Batch& b) { b.page_table_stride = -2; },
      [](Batch& b) { b.page_table_stride = 1; },
      [](Batch& b) { b.num_page_tables = 1; },
      [](Batch& b) { b.num_page_tables = INT32_MAX; },
      [](Batch& b) { b.page_table.pop_back(); },
      [](Batch& b) { b.page_table[0] = 10; },
      [](Batch& b) { b.page_table[0] = -1; },
      [](Batch& b) { b.page_table[4] = 5; },
      [](Batch& b) { b.copies[0].source = PageId{10}; },
      [](Batch& b) { b.copies[0].target = PageId{-1}; },
      [](Batch& b) { b.copies[1].target = PageId{5}; },
      [](Batch& b) { b.copies[0].num_tokens = 5; },
      [](Batch& b) { b.copies[0].num_tokens = -1; },
      [](Batch& b) { b.copies[0].table = 2; },
      [](Batch& b) { b.copies[0].table = -1; },
      [](Batch& b) { b.copies.resize(5000, b.copies[0]); },
      [](Batch& b) { b.state_copies[0].source = 6; },
      [](Batch& b) { b.state_copies[0].target = -1; },
      [](Batch& b) { b.state_slots = {0}; },
      [](Batch& b) {
        b.state_slots = {0, 6};
      },
      [](Batch& b) {
        b.state_banks = {0, 4};
      },
      [](Batch& b) { b.state_banks = {}; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    Batch batch = sound_batch();
    changes[i](batch);
    expect_error(ErrorCode::format, {"malformed"}, [&] { (void)passed_on(batch); });
  }
}

TEST(Messages, PagesWithoutMemoryAreRefused) {
  Batch batch = sound_batch();
  EXPECT_NO_THROW((void)passed_on(batch, 10));
  expect_error(ErrorCode::format, {"entry of a page table"}, [&] { (void)passed_on(batch, 9); });
}

TEST(Messages, TruncatedOnesAreRefused) {
  WireWriter writer;
  write_batch(sound_batch(), writer);
  for (size_t size = 0; size < writer.bytes().size(); ++size) {
    WireReader reader(writer.bytes().first(size));
    Batch read;
    expect_error(ErrorCode::format, {"ends early"}, [&] { read_batch(reader, limits(), 10, read); });
  }
}

// Bytes of any kind give a batch that keeps the limits, or an error.
TEST(Messages, ChangedBytesGiveABatchOrAnError) {
  WireWriter writer;
  write_batch(sound_batch(), writer);
  const std::vector<std::byte> sound(writer.bytes().begin(), writer.bytes().end());
  std::mt19937_64 random(3);
  int32_t num_read = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes = sound;
    for (uint64_t changes = 1 + random() % 3; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random() % 2 == 0 ? random() : random() % 12);
    WireReader reader(bytes);
    Batch read;
    try {
      read_batch(reader, limits(), 10, read);
      ++num_read;
      EXPECT_LE(read.num_tokens(), 8);
      for (const int32_t position : read.positions) EXPECT_TRUE(position >= 0 && position < 16);
      for (const int32_t page : read.page_table) EXPECT_TRUE(page >= 0 && page < 10);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::format);
    }
  }
  EXPECT_GT(num_read, 0);
}

TEST(Messages, SizesOfACacheComeBack) {
  CacheRequest request;
  request.id = 77;
  request.options.max_tokens = 64;
  request.options.max_seq_len = 100;
  request.options.max_pages_per_sequence = 7;
  request.options.kv.key_format = kernels::KvFormat::q8;
  request.options.kv.num_pages = 30;
  request.options.kv.windows = {{16, 8}, {32, 9}};
  request.options.kv.num_state_slots = 5;
  WireWriter writer;
  request.fields(writer);
  WireReader reader(writer.bytes());
  CacheRequest read;
  read.fields(reader);
  reader.finish();
  EXPECT_EQ(read.id, 77U);
  EXPECT_EQ(read.options.kv.key_format, kernels::KvFormat::q8);
  ASSERT_EQ(read.options.kv.windows.size(), 2U);
  EXPECT_EQ(read.options.kv.windows[1].window, 32);
  EXPECT_EQ(read.options.kv.windows[1].num_slots, 9);
  EXPECT_EQ(read.options.max_seq_len, 100);
  EXPECT_NO_THROW(require_cache_sizes(read.options));
}

TEST(Messages, HostileSizesAreRefused) {
  const std::vector<std::function<void(TransformerExecutorOptions&)>> changes = {
      [](auto& o) { o.max_tokens = 0; },
      [](auto& o) { o.max_tokens = INT32_MAX; },
      [](auto& o) { o.max_sequences = -1; },
      [](auto& o) { o.max_pages_per_sequence = 0; },
      [](auto& o) { o.kv.page_tokens = 1 << 20; },
      [](auto& o) { o.kv.num_pages = INT32_MAX; },
      [](auto& o) { o.kv.key_format = static_cast<kernels::KvFormat>(99); },
      [](auto& o) {
        o.kv.windows.resize(5, {8, 8});
      },
      [](auto& o) {
        o.kv.windows = {{8, 8}, {8, 8}};
      },
      [](auto& o) {
        o.kv.windows = {{8, 0}};
      },
      [](auto& o) {
        o.kv.windows = {{0, 1}};
      },
      [](auto& o) { o.kv.num_state_slots = -1; },
      [](auto& o) { o.kv.least_pages = 31; },
      [](auto& o) { o.kv.least_pages = 3; },  // and no chunk
      [](auto& o) { o.chunk_pages = -1; },
      [](auto& o) { o.max_seq_len = -1; },
  };
  TransformerExecutorOptions sound;
  sound.max_pages_per_sequence = 4;
  sound.kv.num_pages = 30;
  EXPECT_NO_THROW(require_cache_sizes(sound));
  for (size_t i = 0; i < changes.size(); ++i) {
    SCOPED_TRACE(i);
    TransformerExecutorOptions options = sound;
    changes[i](options);
    expect_error(ErrorCode::invalid_argument, {}, [&] { require_cache_sizes(options); });
  }
}

}  // namespace
}  // namespace quire::testing
