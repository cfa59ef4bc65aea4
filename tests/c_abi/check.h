/* Checks for the C tests: a failure prints its line and counts; main() returns how many there were.
 * Standard error is taken into a file, so that lines can be counted. */
#ifndef KMEM_TESTS_CHECK_H
#define KMEM_TESTS_CHECK_H

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int failures;

#define CHECK(condition) \
  ((condition)           \
       ? (void)0         \
       : (void)(++failures, printf("%s:%d: failed: %s\n", __FILE__, __LINE__, #condition)))

static int stderr_copy = -1;

/* From here to lines_written(), standard error goes to a file. */
static inline void catch_lines(void) {
  FILE* file = tmpfile();
  fflush(stderr);
  stderr_copy = dup(2);
  dup2(fileno(file), 2);
  fclose(file);
}

/* Lines written since catch_lines(); *bugs, unless NULL, those that begin a report. */
static inline int lines_written(int* bugs) {
  char line[1024];
  int count = 0;
  FILE* file;
  lseek(2, 0, SEEK_SET);
  file = fdopen(dup(2), "r");
  if (bugs != NULL) *bugs = 0;
  while (fgets(line, sizeof(line), file) != NULL) {
    ++count;
    if (bugs != NULL && strncmp(line, "BUG ", 4) == 0) ++*bugs;
  }
  fclose(file);
  dup2(stderr_copy, 2);
  close(stderr_copy);
  return count;
}

#endif
