/* What sshd's own files call of session-key.c. */
struct ssh;
struct Authctxt;

/* In the process that outlives the session: say that it began; it says itself that it ended. */
void session_key_begin(struct ssh *, struct Authctxt *);
void session_key_end(void);

/* In the process that serves the session: end it once its key would not be let in any more. */
void session_key_check(struct ssh *, struct Authctxt *);
