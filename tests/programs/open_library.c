/* open_library NAME...: opens and closes each library, and prints whether it could. It has a RUNPATH of its own. */
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
        void* library = dlopen(argv[i], RTLD_NOW);
        printf("%s\n", library != NULL ? "opened" : dlerror());
        if (library != NULL && dlclose(library) != 0) return 1;
    }
    return 0;
}
