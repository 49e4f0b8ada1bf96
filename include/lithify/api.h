/* What of the library can be seen from outside of it. */
#ifndef LITHIFY_API_H
#define LITHIFY_API_H

#if defined(__GNUC__)
#define LITHIFY_API __attribute__((visibility("default")))
#else
#define LITHIFY_API
#endif

#endif
