/* plugin_thread PLUGIN: a thread calls the library, and ends when that has been unloaded. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

static void (*work)(uint32_t);
static pthread_barrier_t has_worked;
static pthread_barrier_t is_unloaded;

static void* run(void* unused) {
    work(1);
    pthread_barrier_wait(&has_worked);
    pthread_barrier_wait(&is_unloaded);
    return unused;
}

int main(int argc, char** argv) {
    void* const plugin = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (plugin == NULL) return 2;
    work = (void (*)(uint32_t))dlsym(plugin, "plugin_work");
    pthread_barrier_init(&has_worked, NULL, 2);
    pthread_barrier_init(&is_unloaded, NULL, 2);
    pthread_t thread;
    if (pthread_create(&thread, NULL, run, NULL) != 0) return 2;
    pthread_barrier_wait(&has_worked);
    dlclose(plugin);
    if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) != NULL) return 3; /* it must really be gone */
    pthread_barrier_wait(&is_unloaded);
    pthread_join(thread, NULL);
    puts("done");
    return 0;
}
