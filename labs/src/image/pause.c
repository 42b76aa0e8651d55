/* The first process of every pod: holds the pod's namespaces, reaps what others leave, ends on SIGTERM. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void end(int signal) { (void)signal; _exit(0); }
static void reap(int signal) { (void)signal; while (waitpid(-1, 0, WNOHANG) > 0) {} }

int main(void) {
    struct sigaction action = {0};
    action.sa_handler = end;
    sigaction(SIGINT, &action, 0);
    sigaction(SIGTERM, &action, 0);
    action.sa_handler = reap;
    action.sa_flags = SA_NOCLDSTOP;
    sigaction(SIGCHLD, &action, 0);
    for (;;) pause();
}
