/** @file
 * LITHIFY_API marks what the shared library exports. */
#ifndef LITHIFY_API_H
#define LITHIFY_API_H

#if defined(__GNUC__)
#define LITHIFY_API __attribute__((visibility("default")))
#else
#define LITHIFY_API
#endif

#endif
