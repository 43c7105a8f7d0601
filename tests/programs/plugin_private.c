/* Found only by callers whose RUNPATH leads here: see open_library.c. */
int plugin_private(void);
int plugin_private(void) { return 1; }
