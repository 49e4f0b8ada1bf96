// The formatting library inside of ours: Debian has no static one, and the program is to need nothing but libc. This
// file is compiled with FMT_HEADER_ONLY and -fkeep-inline-functions, which makes all of the library's functions here,
// for the other files to link to.
#include <fmt/format.h>
