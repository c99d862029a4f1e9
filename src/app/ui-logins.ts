import { localCaller } from '../core/caller.ts'
import { messageOf } from '../core/errors.ts'
import type { LoginState } from '../ui/api-types.ts'
import { notFound, type UiContext } from './ui-parts.ts'

const LOGIN_MS = 10 * 60_000

/** Runs logins to servers, which a person starts on the page. @param onChange is called when a login ends */
export function createUiLogins({ app, config, clock, log, logins, toSafeText }: UiContext, onChange: () => void) {
  const states = new Map<string, LoginState>()
  return {
    /** The running or failed login of a server. */
    stateOf: (server: string): LoginState | undefined => states.get(server),
    /** Resolves with the address of the login, or without one when the server has accepted a stored login. */
    async start(id: string): Promise<{ readonly url?: string }> {
      const settings = config().servers[id]
      if (!settings || settings.target.kind === 'stdio') throw notFound('server', id)
      const { target } = settings
      const { login } = await import('../upstream/oauth/login.ts')
      const store = await logins()
      return await new Promise((resolve, reject) => {
        let state: LoginState | undefined
        // Ignores the end of a login that a newer login of the same server has replaced.
        const setState = (next?: LoginState): void => {
          if (states.get(id) !== state) return
          if (next) states.set(id, next)
          else states.delete(id)
          onChange()
        }
        const done = login({
          id,
          settings,
          target,
          principal: settings.auth?.perPrincipal === true ? localCaller.principal : undefined,
          store,
          clock,
          prompt: {
            show: (url) => {
              state = { url }
              states.set(id, state)
              resolve({ url })
            },
            // The page opens it, in the browser that the person uses.
            open: async () => undefined,
            warn: (message) => log.warn(message),
          },
          timeoutMs: LOGIN_MS,
          signal: new AbortController().signal,
        })
        done.then(async () => {
          await app.upstreams.connect(id).catch(() => undefined)
          setState()
          resolve({})
        }, reject)
        done.catch((error: unknown) => {
          log.warn('a login failed', { server: id, error })
          setState({ error: toSafeText(messageOf(error)) })
        })
      })
    },
  }
}
