import { PegboardError } from '../../core/errors.ts'
import { isSafeUrl } from '../../policy/network-rules.ts'
import type { Environment } from '../../programs/spawn.ts'

/** Opens a page for a person. The URL must come from `browserUrl`. */
export type OpenBrowser = (url: string) => Promise<void>

/**
 * The URL of a login page, safe to pass to a browser program: https, or http on loopback, without characters that a
 * program could misinterpret.
 * @throws PegboardError E_SSRF_BLOCKED
 */
export function browserUrl(url: URL): string {
  const createBrowserError = (why: string): PegboardError =>
    new PegboardError('E_SSRF_BLOCKED', `The login page is not opened: ${why}.`, {
      hint: 'The authorization server sent an address that is not safe to open in a browser.',
    })
  if (!isSafeUrl(url)) throw createBrowserError(`its address begins with ${url.protocol} and not with https:`)
  if (url.username !== '' || url.password !== '') throw createBrowserError('its address carries a user or password')
  // Percent-encodes quotes, blanks and line breaks that the URL parser leaves.
  const text = url.href.replace(/[^\w\-.~:/?#[\]@!$&()*+,;=%]/g, (char) => encodeURIComponent(char).replace("'", '%27'))
  if (!/^[\w.:[\]-]+$/.test(url.host)) throw createBrowserError('its host is not a name')
  return text
}

/** The program that opens a page, and its arguments. Runs without a shell. */
export function browserCommand(
  url: string,
  platform: string,
  environment: Environment,
): readonly [string, ...string[]] {
  const configured = environment['BROWSER']
  if (configured) return [configured, url]
  if (platform === 'darwin') return ['open', url]
  if (platform === 'win32') return ['rundll32', 'url.dll,FileProtocolHandler', url]
  return ['xdg-open', url]
}

/**
 * Opens pages with the platform's program, or the one in BROWSER. Resolves when it has started.
 * @throws if it cannot start
 */
export function createBrowser(platform: string, environment: Environment): OpenBrowser {
  return (url) =>
    new Promise((resolve, reject) => {
      const [command, ...args] = browserCommand(url, platform, environment)
      const { spawn } = process.getBuiltinModule('node:child_process')
      const child = spawn(command, args, {
        stdio: 'ignore',
        detached: true,
        shell: false,
        env: environment as NodeJS.ProcessEnv,
      })
      child.once('error', reject)
      child.once('spawn', () => {
        child.unref()
        resolve()
      })
    })
}
