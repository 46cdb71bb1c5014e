/* gcoll/export.h - the macros that export public functions and make headers usable from C++. */
#ifndef GCOLL_EXPORT_H
#define GCOLL_EXPORT_H

#if defined(__GNUC__)
#define GCOLL_API __attribute__((visibility("default")))
#else
#define GCOLL_API
#endif

#ifdef __cplusplus
#define GCOLL_BEGIN_DECLS extern "C" {
#define GCOLL_END_DECLS   }
#else
#define GCOLL_BEGIN_DECLS
#define GCOLL_END_DECLS
#endif

#endif
