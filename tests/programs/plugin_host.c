/* plugin_host PLUGIN TURNS: loads the library, calls it and unloads it, again and again. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    for (uint32_t turn = 0; turn < (uint32_t)atoi(argv[2]); ++turn) {
        void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
        if (plugin == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return 1;
        }
        void (*work)(uint32_t) = (void (*)(uint32_t))dlsym(plugin, "plugin_work");
        work(turn);
        work(turn + 1000);
        dlclose(plugin);
        if (dlopen(argv[1], RTLD_NOW | RTLD_NOLOAD) != NULL) return 3; /* it must really be gone */
    }
    puts("done");
    return 0;
}
