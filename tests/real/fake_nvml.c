/* A driver's library that says what a text file tells it to: the file is read again at every call, so a test can
 * let a GPU fall out between two of them. $FAKE_NVML names it; its lines are KEY=VALUE, and what it does not say
 * is not supported. Keys: init, hang (any value: every call hangs), count, driver, cuda, and for GPU N: N.uuid, N.name,
 * N.total, N.free, N.utilization, N.ecc, N.ecc_errors, N.rows_failed, N.processes (PID:BYTES,...), N.mig, N.slices,
 * N.error (a number of NVML's: what every call about it answers), and N.S.uuid and so on for slice S of GPU N.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9 };

typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned pid; unsigned long long bytes; unsigned gpu_instance, compute_instance; } Process;

static char names[64][16];

static const char *handle_of(int gpu, int slice) {
    char *name = names[gpu * 8 + slice + 1];
    if (slice < 0) sprintf(name, "%d", gpu); else sprintf(name, "%d.%d", gpu, slice);
    return name;
}

static int lookup(const char *key, char *value, size_t room) {
    const char *path = getenv("FAKE_NVML");
    FILE *file = path ? fopen(path, "r") : NULL;
    char line[512];
    size_t length = strlen(key);
    int found = 0;
    if (!file) return 0;
    while (!found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (!strncmp(line, key, length) && line[length] == '=') {
            snprintf(value, room, "%s", line + length + 1);
            found = 1;
        }
    }
    fclose(file);
    return found;
}

static int number(const char *key, unsigned long long *value) {
    char text[64];
    if (!lookup(key, text, sizeof text)) return NOT_SUPPORTED;
    *value = strtoull(text, NULL, 10);
    return OK;
}

static void maybe_hang(void) {
    unsigned long long hang;
    while (number("hang", &hang) == OK) usleep(50000);
}

/* What a call about a device answers before anything else: the error of its GPU, if it has one. */
static int error_of(const char *handle) {
    char key[32];
    unsigned long long error;
    maybe_hang();
    snprintf(key, sizeof key, "%d.error", atoi(handle));
    return number(key, &error) == OK ? (int)error : OK;
}

static int text_of(const char *handle, const char *field, char *value, unsigned room) {
    char key[64];
    int error = error_of(handle);
    if (error) return error;
    snprintf(key, sizeof key, "%s.%s", handle, field);
    return lookup(key, value, room) ? OK : NOT_SUPPORTED;
}

static int number_of(const char *handle, const char *field, unsigned long long *value) {
    char text[64];
    int error = text_of(handle, field, text, sizeof text);
    if (!error) *value = strtoull(text, NULL, 10);
    return error;
}

static int small_of(const char *handle, const char *field, unsigned *value) {
    unsigned long long found;
    int error = number_of(handle, field, &found);
    if (!error) *value = (unsigned)found;
    return error;
}

int nvmlInitWithFlags(unsigned flags) {
    unsigned long long error, count;
    (void)flags;
    maybe_hang();
    if (number("init", &error) == OK) return (int)error;
    return number("count", &count) == OK ? OK : DRIVER_NOT_LOADED;
}

int nvmlShutdown(void) { return OK; }

int nvmlSystemGetDriverVersion(char *version, unsigned room) {
    return lookup("driver", version, room) ? OK : NOT_SUPPORTED;
}

int nvmlSystemGetCudaDriverVersion_v2(int *version) {
    unsigned long long found;
    int error = number("cuda", &found);
    if (!error) *version = (int)found;
    return error;
}

int nvmlDeviceGetCount_v2(unsigned *count) {
    unsigned long long found, error;
    maybe_hang();
    if (number("init", &error) == OK) return (int)error;
    if (number("count", &found)) return DRIVER_NOT_LOADED;
    *count = (unsigned)found;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, const char **handle) {
    *handle = handle_of((int)index, -1);
    return error_of(*handle);
}

int nvmlDeviceGetUUID(const char *handle, char *uuid, unsigned room) { return text_of(handle, "uuid", uuid, room); }

int nvmlDeviceGetName(const char *handle, char *name, unsigned room) { return text_of(handle, "name", name, room); }

int nvmlDeviceGetMemoryInfo(const char *handle, Memory *memory) {
    int error = number_of(handle, "total", &memory->total);
    if (!error) error = number_of(handle, "free", &memory->free);
    if (!error) memory->used = memory->total - memory->free;
    return error;
}

int nvmlDeviceGetUtilizationRates(const char *handle, Utilization *rates) {
    rates->memory = 0;
    return small_of(handle, "utilization", &rates->gpu);
}

int nvmlDeviceGetEccMode(const char *handle, unsigned *current, unsigned *pending) {
    *pending = 0;
    return small_of(handle, "ecc", current);
}

int nvmlDeviceGetTotalEccErrors(const char *handle, int kind, int counter, unsigned long long *count) {
    (void)kind, (void)counter;
    return number_of(handle, "ecc_errors", count);
}

int nvmlDeviceGetRemappedRows(const char *handle, unsigned *corrected, unsigned *uncorrected, unsigned *pending,
                              unsigned *failed) {
    *corrected = *uncorrected = *pending = 0;
    return small_of(handle, "rows_failed", failed);
}

int nvmlDeviceGetMigMode(const char *handle, unsigned *current, unsigned *pending) {
    *pending = 0;
    return small_of(handle, "mig", current);
}

int nvmlDeviceGetMaxMigDeviceCount(const char *handle, unsigned *count) { return small_of(handle, "slices", count); }

int nvmlDeviceGetMigDeviceHandleByIndex(const char *handle, unsigned index, const char **slice) {
    char uuid[96];
    *slice = handle_of(atoi(handle), (int)index);
    return text_of(*slice, "uuid", uuid, sizeof uuid) ? NOT_FOUND : OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(const char *handle, unsigned *count, Process *found) {
    char text[256], *rest = text, *one;
    unsigned room = *count;
    int error = text_of(handle, "processes", text, sizeof text);
    if (error) return error;
    *count = 0;
    while ((one = strsep(&rest, ","))) {
        char *bytes = strchr(one, ':');
        if (!bytes) continue;
        if (found && *count < room) {
            found[*count].pid = (unsigned)atoi(one);
            /* "-" is what a driver answers that does not tell. */
            found[*count].bytes = bytes[1] == '-' ? ~0ULL : strtoull(bytes + 1, NULL, 10);
        }
        ++*count;
    }
    return *count && !found ? INSUFFICIENT_SIZE : OK;
}
