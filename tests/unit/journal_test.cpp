// What is collected in an attempt can be undone as a whole.
#include <doctest/doctest.h>

#include <string>

#include "base/journal.hpp"
#include "base/restored.hpp"

namespace lithify {

TEST_CASE("an attempt that is undone leaves nothing in any collection") {
  Journal journal;
  JournaledList<int> list(journal);
  JournaledSet<std::string> set(journal);
  JournaledMap<std::string, int> map(journal);
  auto add = [&](int n) {
    list.push_back(n);
    set.insert(std::to_string(n));
    map.edit("all", [&](int& sum) { sum += n; });
    map.edit(std::to_string(n), [](int& count) { ++count; });
  };
  add(1);
  {
    Journal::Attempt attempt(journal);
    add(2);
    {
      Journal::Attempt inner(journal);
      add(3);
      inner.undo();
      add(4);  // stays: nothing undoes it
    }
    CHECK(list.all() == std::vector{1, 2, 4});
    attempt.undo();
    CHECK(list.all() == std::vector{1});
    add(5);
  }
  CHECK(list.all() == std::vector{1, 5});
  CHECK(set.contains("1"));
  CHECK_FALSE(set.contains("2"));
  CHECK_FALSE(set.contains("4"));
  CHECK(map.all() == std::map<std::string, int>{{"1", 1}, {"5", 1}, {"all", 6}});
}

TEST_CASE("an attempt inside of one that is undone is undone with it, although it was kept") {
  Journal journal;
  JournaledList<int> list(journal);
  Journal::Attempt outer(journal);
  {
    Journal::Attempt inner(journal);
    list.push_back(1);
  }
  outer.undo();
  CHECK(list.all().empty());
}

TEST_CASE("a variable is put back however its scope ends") {
  int depth = 1;
  try {
    const Restored<int> outer(depth, depth + 1);
    CHECK(depth == 2);
    throw std::string("left");
  } catch (const std::string&) {
  }
  CHECK(depth == 1);
}

}  // namespace lithify
