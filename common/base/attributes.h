// Marks that a reader and scripts/tidy.py look for.
#pragma once

// A path taken by nearly every call: at most 12 lines, two branches, no preprocessor lines.
#define KMEM_FAST [[gnu::always_inline]] inline

// Everything a fast path falls back to: out of line, so that it costs the fast path one jump.
#define KMEM_SLOW [[gnu::noinline]]

// Symbols of the public C interface; all others of the library are hidden.
#define KMEM_EXPORT [[gnu::visibility("default")]]
