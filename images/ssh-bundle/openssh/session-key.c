/*
 * A session lives only as long as the key that opened it would be let in.
 *
 * The process that serves a session knows its key, so that nothing has to be guessed from logs, and no helper can be
 * killed: every two seconds it asks the question of the login again, of the files as they are then. Two answers in a
 * row must be no: while the kubelet swaps the mounted folder, a file may be missing for a moment. A session without a
 * known key ends. Start and end are said in one line each, for the unit's audit log.
 */
#include "includes.h"

#include <sys/types.h>
#include <sys/wait.h>

#include <ctype.h>
#include <pwd.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "xmalloc.h"
#include "ssh.h"
#include "sshbuf.h"
#include "sshkey.h"
#include "digest.h"
#include "hostfile.h"
#include "auth.h"
#include "log.h"
#include "misc.h"
#include "packet.h"
#include "platform.h"
#include "servconf.h"
#include "session-key.h"

/* Seconds between two looks: with the second, confirming one, a session is gone within five. */
#define LOOK_SECONDS 2
#define NOES_IN_A_ROW 2

/* Seconds to tell a client why, should it not even read: then the process ends without a word. */
#define GOODBYE_SECONDS 2

extern ServerOptions options;
extern int use_privsep; /* off for root, who has no second process */

static pid_t mine; /* the process that said a session began, and must say that it ended */
static time_t begun;
static char who[1024];

/* The key that opened the session; NULL when that is not known. */
static struct sshkey *
opened_with(const Authctxt *authctxt)
{
	return authctxt->nprev_keys == 0 ? NULL : authctxt->prev_keys[authctxt->nprev_keys - 1];
}

/* Copy a certificate's name so that it is one word of harmless letters, cut where it is too long. */
static void
as_word(char *word, size_t size, const char *text)
{
	size_t n;

	for (n = 0; text[n] != '\0' && n + 1 < size; n++)
		word[n] = isalnum((unsigned char)text[n]) || strchr("._@:+/-", text[n]) ? text[n] : '?';
	word[n] = '\0';
}

static void
describe(struct ssh *ssh, const Authctxt *authctxt)
{
	const struct sshkey *key = opened_with(authctxt);
	char *print = key == NULL ? NULL : sshkey_fingerprint(key, SSH_FP_HASH_DEFAULT, SSH_FP_DEFAULT);
	char *ca = NULL, name[129];
	int length;

	length = snprintf(who, sizeof(who), "session=%ld user=%s port=%d type=%s key=%s", (long)mine, authctxt->user,
	    ssh_remote_port(ssh), key == NULL ? "unknown" : sshkey_ssh_name(key), print == NULL ? "unknown" : print);
	if (key != NULL && sshkey_is_cert(key) && length > 0 && (size_t)length < sizeof(who)) {
		ca = sshkey_fingerprint(key->cert->signature_key, SSH_FP_HASH_DEFAULT, SSH_FP_DEFAULT);
		as_word(name, sizeof(name), key->cert->key_id);
		snprintf(who + length, sizeof(who) - length, " ca=%s serial=%llu certificate=%s",
		    ca == NULL ? "unknown" : ca, (unsigned long long)key->cert->serial, name);
	}
	free(print);
	free(ca);
}

void
session_key_begin(struct ssh *ssh, Authctxt *authctxt)
{
	platform_disable_tracing(0); /* no other process of this uid may look into this one, or steer it */
	mine = getpid();
	begun = monotime();
	describe(ssh, authctxt);
	logit("gpu-runtime: session-start %s", who);
	atexit(session_key_end);
}

void
session_key_end(void)
{
	if (mine == 0 || mine != getpid()) /* a child of the process has this memory, too */
		return;
	mine = 0;
	logit("gpu-runtime: session-end %s seconds=%lld", who, (long long)(monotime() - begun));
}

/* Ask what the login asked, and say nothing of it. */
static int
is_let_in(struct ssh *ssh, const Authctxt *authctxt)
{
	struct sshkey *key = opened_with(authctxt);
	int allowed;

	if (key == NULL)
		return 0;
	if (sshkey_is_cert(key))
		key->cert->valid_before = UINT64_MAX; /* our copy: it was valid when it came, and its end ends no session */
	log_change_level(SYSLOG_LEVEL_QUIET);
	allowed = user_key_allowed(ssh, authctxt->pw, key, 0, NULL);
	log_change_level(options.log_level);
	auth_debug_reset(); /* it would grow with each look */
	return allowed;
}

void
session_key_check(struct ssh *ssh, Authctxt *authctxt)
{
	static time_t due;
	static int noes;
	time_t now = monotime();

	if (now < due)
		return;
	if (due == 0)
		platform_disable_tracing(0);
	due = now + LOOK_SECONDS;
	noes = is_let_in(ssh, authctxt) ? 0 : noes + 1;
	if (noes < NOES_IN_A_ROW)
		return;
	logit("gpu-runtime: session-revoked session=%ld user=%s port=%d", (long)(use_privsep ? getppid() : getpid()),
	    authctxt->user, ssh_remote_port(ssh));
	signal(SIGALRM, SIG_DFL);
	alarm(GOODBYE_SECONDS);
	ssh_packet_disconnect(ssh, "the key of this session is no longer admitted");
}
