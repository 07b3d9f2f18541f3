// The environment of a daemon that works with a sandbox.
import type { Sandbox } from './sandbox.ts'

/** Where the sandbox's platform is, and the account that it knows; a free port for the daemon's own listener is drawn. */
export function daemonEnv(
  { authUrl, baseUrl, clientId, realm }: Pick<Sandbox, 'authUrl' | 'baseUrl' | 'clientId' | 'realm'>,
  privateKeyFile: string,
): Record<string, string> {
  return {
    RECONCILER_PLATFORM_BASE_URL: baseUrl,
    RECONCILER_AUTH_AUTH_URL: authUrl,
    RECONCILER_AUTH_REALM: realm,
    RECONCILER_AUTH_CLIENT_ID: clientId,
    RECONCILER_AUTH_PRIVATE_KEY_FILE: privateKeyFile,
    RECONCILER_SERVER_HOST: '127.0.0.1',
    RECONCILER_SERVER_PORT: '0',
  }
}
