#include "archive/zip.hpp"

#include <fmt/format.h>
#include <libdeflate.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <numeric>
#include <system_error>
#include <thread>

#include "base/diagnostic.hpp"

namespace lithify::archive {
namespace {

constexpr uint32_t local_signature = 0x04034b50;
constexpr uint32_t central_signature = 0x02014b50;
constexpr uint32_t end_signature = 0x06054b50;
constexpr uint32_t end64_signature = 0x06064b50;
constexpr uint32_t locator_signature = 0x07064b50;

constexpr size_t local_size = 30;
constexpr size_t central_size = 46;
constexpr size_t end_size = 22;
constexpr size_t end64_size = 56;
constexpr size_t locator_size = 20;

constexpr uint16_t in_zip64_16 = 0xffff;
constexpr uint32_t in_zip64_32 = 0xffffffff;
constexpr uint16_t flag_sizes_follow = 1 << 3;
constexpr uint16_t flags_encrypted = 1 << 0 | 1 << 6 | 1 << 13;

/// Deflate cannot do better; a larger claim is a lie.
constexpr uint64_t max_ratio = 1032;
constexpr uint64_t inflate_allowance = uint64_t{1} << 30;

Error bad(std::string message) { return Error(Code::BadArchive, std::move(message)); }
Error truncated() {
  return Error(Code::BadArchive, "the file begins as a zip archive but its end is missing",
               "the file is incomplete: copy or download it again");
}

using Bytes = std::span<const std::byte>;

/// [offset, offset + size) lies inside [0, limit).
bool inside(uint64_t offset, uint64_t size, uint64_t limit) { return offset <= limit && size <= limit - offset; }

struct Directory {
  uint64_t offset;
  uint64_t size;
  uint64_t count;
};

/// The contents of the zip64 end record, if there is a locator before the classic end record.
std::optional<Directory> read_zip64_end(Bytes file, size_t end) {
  if (end < locator_size || load_le<uint32_t>(file, end - locator_size) != locator_signature) return std::nullopt;
  const size_t locator = end - locator_size;
  const auto record = load_le<uint64_t>(file, locator + 8);
  if (load_le<uint32_t>(file, locator + 4) != 0 || load_le<uint32_t>(file, locator + 16) > 1)
    throw bad("the zip archive spans several disks");
  if (!inside(record, end64_size, locator) || load_le<uint32_t>(file, record) != end64_signature)
    throw bad("the zip64 end record is not where its locator points");
  if (load_le<uint32_t>(file, record + 16) != 0 || load_le<uint32_t>(file, record + 20) != 0)
    throw bad("the zip archive spans several disks");
  Directory d{load_le<uint64_t>(file, record + 48), load_le<uint64_t>(file, record + 40),
              load_le<uint64_t>(file, record + 32)};
  if (load_le<uint64_t>(file, record + 24) != d.count) throw bad("the zip archive spans several disks");
  if (!inside(d.offset, d.size, record)) throw bad("the zip directory reaches outside the file");
  return d;
}

Directory find_directory(Bytes file) {
  if (file.size() < 4 || load_le<uint32_t>(file, 0) != local_signature)
    throw bad("the file does not begin with a zip record");
  if (file.size() < end_size) throw truncated();
  const size_t last = file.size() - end_size;
  const size_t first = last > 0xffff ? last - 0xffff : 0;
  size_t end = last + 1;
  do {
    if (end == first) throw truncated();
    --end;
  } while (load_le<uint32_t>(file, end) != end_signature || load_le<uint16_t>(file, end + 20) != last - end);

  if (auto zip64 = read_zip64_end(file, end)) return *zip64;
  if (load_le<uint16_t>(file, end + 4) != 0 || load_le<uint16_t>(file, end + 6) != 0 ||
      load_le<uint16_t>(file, end + 8) != load_le<uint16_t>(file, end + 10))
    throw bad("the zip archive spans several disks");
  Directory d{load_le<uint32_t>(file, end + 16), load_le<uint32_t>(file, end + 12), load_le<uint16_t>(file, end + 10)};
  if (!inside(d.offset, d.size, end)) throw bad("the zip directory reaches outside the file");
  return d;
}

/// Names are only ever looked up, never used as paths; still, no honest writer makes one of these.
bool acceptable_name(std::string_view name) {
  if (name.empty() || name.front() == '/') return false;
  for (unsigned char c : name)
    if (c < 0x20 || c == 0x7f) return false;
  for (size_t begin = 0; begin <= name.size();) {
    const size_t slash = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, slash - begin) == "..") return false;
    begin = slash + 1;
  }
  return true;
}

/// An entry as the directory has it: `name` with its folder, and the place of the local header.
struct Listed {
  Archive::Entry entry;
  uint64_t header;
};

/// Reads the fields that did not fit into a central header from its zip64 extra field, in their fixed order.
class Zip64Extra {
 public:
  Zip64Extra(Bytes extra, std::string_view name) : name_(name) {
    while (extra.size() >= 4) {
      const auto id = load_le<uint16_t>(extra, 0);
      const size_t size = load_le<uint16_t>(extra, 2);
      if (size > extra.size() - 4) break;
      if (id == 1) {
        rest_ = extra.subspan(4, size);
        return;
      }
      extra = extra.subspan(4 + size);
    }
  }

  uint64_t widen(uint32_t value) {
    if (value != in_zip64_32) return value;
    return take<uint64_t>();
  }
  uint32_t widen_disk(uint16_t value) {
    if (value != in_zip64_16) return value;
    return take<uint32_t>();
  }

 private:
  template <std::unsigned_integral T>
  T take() {
    if (rest_.size() < sizeof(T)) throw bad(fmt::format("the zip64 field of record '{}' is missing", name_));
    T value = load_le<T>(rest_, 0);
    rest_ = rest_.subspan(sizeof(T));
    return value;
  }

  std::string_view name_;
  Bytes rest_;
};

/// Compares the local header with the directory, and finds where the data begins.
void locate_data(Bytes file, const Directory& directory, Listed& item) {
  Archive::Entry& e = item.entry;
  const auto fail = [&](std::string_view what) { return bad(fmt::format("record '{}' {}", e.name, what)); };
  if (!inside(item.header, local_size, directory.offset)) throw fail("lies outside the data of the archive");
  const Bytes header = file.subspan(item.header, local_size);
  if (load_le<uint32_t>(header, 0) != local_signature) throw fail("has no header where the directory points");
  const auto flags = load_le<uint16_t>(header, 6);
  if (flags & flags_encrypted) throw fail("is encrypted");
  const size_t name_size = load_le<uint16_t>(header, 26);
  const size_t extra_size = load_le<uint16_t>(header, 28);
  if (!inside(item.header + local_size, name_size + extra_size, directory.offset))
    throw fail("lies outside the data of the archive");
  const bool same_name = as_text(file.subspan(item.header + local_size, name_size)) == e.name;
  if (!same_name || load_le<uint16_t>(header, 8) != (e.deflated ? 8 : 0))
    throw fail("has a header that disagrees with the directory");
  // A writer that streams leaves zeros in the header.
  const auto agrees = [&](uint32_t local, uint64_t listed) {
    return local == listed || local == in_zip64_32 || (local == 0 && (flags & flag_sizes_follow));
  };
  if (!agrees(load_le<uint32_t>(header, 14), e.crc) || !agrees(load_le<uint32_t>(header, 18), e.stored_size) ||
      !agrees(load_le<uint32_t>(header, 22), e.size))
    throw fail("has sizes that disagree with the directory");
  e.offset = item.header + local_size + name_size + extra_size;
  if (!inside(e.offset, e.stored_size, directory.offset)) throw fail("reaches outside the data of the archive");
}

std::vector<Listed> read_directory(Bytes file) {
  const Directory directory = find_directory(file);
  Bytes rest = file.subspan(directory.offset, directory.size);
  if (directory.count > directory.size / central_size) throw bad("the zip directory is shorter than it claims");
  std::vector<Listed> listed;
  listed.reserve(directory.count);
  for (uint64_t i = 0; i < directory.count; ++i) {
    if (rest.size() < central_size || load_le<uint32_t>(rest, 0) != central_signature)
      throw bad("the zip directory is damaged");
    const size_t name_size = load_le<uint16_t>(rest, 28);
    const size_t extra_size = load_le<uint16_t>(rest, 30);
    const size_t comment_size = load_le<uint16_t>(rest, 32);
    if (rest.size() - central_size < name_size + extra_size + comment_size) throw bad("the zip directory is damaged");

    const std::string_view name = as_text(rest.subspan(central_size, name_size));
    const auto fail = [&](std::string_view what) { return bad(fmt::format("record '{}' {}", name, what)); };
    if (!acceptable_name(name)) throw fail("has a name that no model file has");
    if (load_le<uint16_t>(rest, 8) & flags_encrypted) throw fail("is encrypted");
    const auto method = load_le<uint16_t>(rest, 10);
    if (method != 0 && method != 8) throw fail(fmt::format("is compressed by the unknown method {}", method));

    Zip64Extra extra(rest.subspan(central_size + name_size, extra_size), name);
    Listed item;
    item.entry.name = name;
    item.entry.deflated = method == 8;
    item.entry.crc = load_le<uint32_t>(rest, 16);
    item.entry.size = extra.widen(load_le<uint32_t>(rest, 24));
    item.entry.stored_size = extra.widen(load_le<uint32_t>(rest, 20));
    item.header = extra.widen(load_le<uint32_t>(rest, 42));
    if (extra.widen_disk(load_le<uint16_t>(rest, 34)) != 0) throw fail("lies on another disk");
    if (!item.entry.deflated && item.entry.size != item.entry.stored_size) throw fail("is stored, but has two sizes");
    if (item.entry.size / max_ratio > item.entry.stored_size)
      throw fail("claims a size that its data cannot inflate to");
    locate_data(file, directory, item);
    listed.push_back(std::move(item));
    rest = rest.subspan(central_size + name_size + extra_size + comment_size);
  }
  if (!rest.empty()) throw bad("the zip directory is longer than it claims");
  return listed;
}

void refuse_overlaps(const std::vector<Listed>& listed) {
  std::vector<const Listed*> order;
  order.reserve(listed.size());
  for (const Listed& item : listed) order.push_back(&item);
  std::ranges::sort(order, {}, &Listed::header);
  for (size_t i = 1; i < order.size(); ++i)
    if (order[i - 1]->entry.offset + order[i - 1]->entry.stored_size > order[i]->header)
      throw bad(fmt::format("records '{}' and '{}' overlap", order[i - 1]->entry.name, order[i]->entry.name));
}

/// The folder that every entry is in, without the slash; empty when there is none.
std::string common_folder(const std::vector<Listed>& listed) {
  if (listed.empty()) return {};
  const std::string& first = listed.front().entry.name;
  const size_t slash = first.find('/');
  if (slash == std::string::npos) return {};
  const std::string_view folder = std::string_view(first).substr(0, slash + 1);
  for (const Listed& item : listed)
    if (!item.entry.name.starts_with(folder)) return {};
  return first.substr(0, slash);
}

struct FreeDecompressor {
  void operator()(libdeflate_decompressor* d) const { libdeflate_free_decompressor(d); }
};

uint32_t crc32(Bytes bytes) { return libdeflate_crc32(0, bytes.data(), bytes.size()); }

}  // namespace

struct Archive::Impl {
  Record contents;
  std::string top;
  std::vector<Entry> entries;  // sorted by name
  std::unique_ptr<std::atomic<bool>[]> verified;
  mutable std::atomic<uint64_t> inflated = 0;

  explicit Impl(Record bytes) : contents(std::move(bytes)) {
    std::vector<Listed> listed = read_directory(contents.bytes);
    refuse_overlaps(listed);
    top = common_folder(listed);
    const size_t prefix = top.empty() ? 0 : top.size() + 1;
    for (Listed& item : listed) {
      if (item.entry.name.ends_with('/')) continue;
      item.entry.name.erase(0, prefix);
      entries.push_back(std::move(item.entry));
    }
    std::ranges::sort(entries, {}, &Entry::name);
    const auto twin = std::ranges::adjacent_find(entries, {}, &Entry::name);
    if (twin != entries.end()) throw bad(fmt::format("the archive has two records '{}'", twin->name));
    verified = std::make_unique<std::atomic<bool>[]>(entries.size());
  }

  Bytes stored(const Entry& e) const { return contents.bytes.subspan(e.offset, e.stored_size); }

  /// A stored checksum of 0 means that the writer did not compute any.
  void compare_checksum(const Entry& e, Bytes bytes) const {
    if (e.crc == 0 || crc32(bytes) == e.crc) return;
    throw Error(Code::BadChecksum, fmt::format("record '{}' does not match its checksum", e.name),
                "the file is damaged: copy or download it again");
  }

  void verify(const Entry& e) const {
    std::atomic<bool>& done = verified[static_cast<size_t>(&e - entries.data())];
    if (e.deflated || done.load(std::memory_order_relaxed)) return;
    compare_checksum(e, stored(e));
    done.store(true, std::memory_order_relaxed);
  }

  Record inflate(const Entry& e) const {
    const uint64_t total = inflated.fetch_add(e.size) + e.size;
    if (total > inflate_allowance + 4 * contents.bytes.size())
      throw Error(Code::LimitExceeded, fmt::format("record '{}' inflates beyond the allowed {} bytes", e.name,
                                                   inflate_allowance + 4 * contents.bytes.size()));
    // Not cleared: pages that no data arrives for are never touched.
    std::shared_ptr<std::byte[]> buffer = std::make_shared_for_overwrite<std::byte[]>(std::max<uint64_t>(e.size, 1));
    const std::unique_ptr<libdeflate_decompressor, FreeDecompressor> decompressor(libdeflate_alloc_decompressor());
    if (!decompressor) throw std::bad_alloc();
    size_t used = 0, made = 0;
    const auto result = libdeflate_deflate_decompress_ex(decompressor.get(), stored(e).data(), e.stored_size,
                                                         buffer.get(), e.size, &used, &made);
    if (result != LIBDEFLATE_SUCCESS || used != e.stored_size || made != e.size)
      throw bad(fmt::format("the compressed data of record '{}' is damaged", e.name));
    const Bytes bytes(buffer.get(), e.size);
    compare_checksum(e, bytes);
    return {bytes, std::move(buffer)};
  }
};

Archive::Archive(const std::shared_ptr<const MappedFile>& file) : Archive(Record{file->bytes(), file}) {}
Archive::Archive(Record contents) : impl_(std::make_shared<const Impl>(std::move(contents))) {}

const std::string& Archive::top() const { return impl_->top; }
const std::vector<Archive::Entry>& Archive::entries() const { return impl_->entries; }

std::span<const Archive::Entry> Archive::entries_under(std::string_view prefix) const {
  const auto begin = std::ranges::lower_bound(impl_->entries, prefix, {}, &Entry::name);
  auto end = begin;
  while (end != impl_->entries.end() && end->name.starts_with(prefix)) ++end;
  return std::span(impl_->entries).subspan(begin - impl_->entries.begin(), end - begin);
}

const Archive::Entry* Archive::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(impl_->entries, name, {}, &Entry::name);
  return at != impl_->entries.end() && at->name == name ? &*at : nullptr;
}

Record Archive::read(std::string_view name, Check check) const {
  const Entry* e = find(name);
  if (!e) throw bad(fmt::format("the archive has no record '{}'", name));
  if (e->deflated) return impl_->inflate(*e);
  if (check == Check::Now) impl_->verify(*e);
  return {impl_->stored(*e), impl_->contents.owner};
}

std::optional<Record> Archive::read_if_present(std::string_view name) const {
  if (!has(name)) return std::nullopt;
  return read(name);
}

namespace {

constexpr uint64_t worth_a_thread = 1 << 20;  // bytes

uint64_t stored_size(std::span<const Archive::Entry> entries) {
  return std::transform_reduce(entries.begin(), entries.end(), uint64_t{0}, std::plus{},
                               [](const Archive::Entry& e) { return e.stored_size; });
}

}  // namespace

void Archive::verify(std::span<const Entry> entries, unsigned threads) const {
  // The largest first, so that the threads finish together.
  std::vector<const Entry*> order;
  for (const Entry& e : entries) order.push_back(&e);
  std::ranges::sort(order, std::greater{}, &Entry::stored_size);

  std::atomic<size_t> next = 0;
  std::mutex failure_lock;
  std::exception_ptr failure;
  const auto work = [&] {
    try {
      for (size_t i = next++; i < order.size(); i = next++) impl_->verify(*order[i]);
    } catch (...) {
      next = order.size();
      const std::lock_guard hold(failure_lock);
      failure = std::current_exception();
    }
  };
  {
    const uint64_t worth = stored_size(entries) / worth_a_thread;
    const auto wanted = std::min<uint64_t>(threads, std::min<uint64_t>(worth, order.size()));
    std::vector<std::jthread> others;
    try {
      for (uint64_t i = 1; i < wanted; ++i) others.emplace_back(work);
    } catch (const std::system_error&) {
      // No thread to be had: the ones there are do it all.
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

std::future<void> Archive::verify_meanwhile(std::span<const Entry> entries) const {
  const bool alone = stored_size(entries) >= worth_a_thread && std::thread::hardware_concurrency() > 1;
  // Not a temporary, which libstdc++ moves into the thread that it cannot start, and then defers what is left of it.
  const auto work = [archive = *this, entries] { archive.verify(entries); };
  return std::async(alone ? std::launch::async | std::launch::deferred : std::launch::deferred, work);
}

}  // namespace lithify::archive
