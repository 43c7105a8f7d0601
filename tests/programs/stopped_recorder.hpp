// While an object of this class exists, the recorder of this program, its parent, is stopped.
#pragma once

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

class StoppedRecorder {
  public:
    StoppedRecorder() {
        if (!is_there_) return;
        kill(pid_, SIGSTOP);
        while (!is_stopped()) sched_yield();
    }
    ~StoppedRecorder() {
        if (is_there_) kill(pid_, SIGCONT);
    }
    StoppedRecorder(const StoppedRecorder&) = delete;
    StoppedRecorder& operator=(const StoppedRecorder&) = delete;

  private:
    // Whether each of its threads is stopped.
    [[nodiscard]] bool is_stopped() const {
        char directory[64];
        std::snprintf(directory, sizeof directory, "/proc/%d/task", pid_);
        DIR* const tasks = opendir(directory);
        if (tasks == nullptr) return true;
        bool is_so = true;
        while (const dirent* task = readdir(tasks)) {
            char path[400];
            char text[512] = "";
            std::snprintf(path, sizeof path, "%s/%s/stat", directory, task->d_name);
            FILE* const file = task->d_name[0] != '.' ? std::fopen(path, "r") : nullptr;
            if (file == nullptr) continue;
            text[std::fread(text, 1, sizeof text - 1, file)] = '\0';
            std::fclose(file);
            const char* const name_end = std::strrchr(text, ')');
            is_so = is_so && name_end != nullptr && name_end[2] == 'T';
        }
        closedir(tasks);
        return is_so;
    }

    bool is_there_ = std::getenv("LEAT_RECORDER_DIR") != nullptr;
    int pid_ = getppid();
};
