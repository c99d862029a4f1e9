import { spawn } from 'node:child_process'
import { PegboardError } from '../../core/errors.ts'
import { isLoopback } from '../../policy/net.ts'
import type { Environment } from '../../programs/spawn.ts'

/** Opens a page for a person. The URL has been through `browserUrl`. */
export type OpenBrowser = (url: string) => Promise<void>

/**
 * The address of a login page as it may be handed to a browser: https, or http to this machine, with nothing in it a
 * program could take for anything but an address.
 * @throws PegboardError E_SSRF_BLOCKED
 */
export function browserUrl(url: URL): string {
  const refused = (why: string): PegboardError =>
    new PegboardError('E_SSRF_BLOCKED', `The login page is not opened: ${why}.`, {
      hint: 'The authorization server names an address a browser should not be given.',
    })
  if (url.protocol !== 'https:' && !(url.protocol === 'http:' && isLoopback(url)))
    throw refused(`its address begins with ${url.protocol} and not with https:`)
  if (url.username !== '' || url.password !== '') throw refused('its address carries a user or password')
  // What the URL parser leaves of quotes, blanks and line ends is percent-encoded here.
  const text = url.href.replace(/[^\w\-.~:/?#[\]@!$&()*+,;=%]/g, (char) => encodeURIComponent(char).replace("'", '%27'))
  if (!/^[\w.:[\]-]+$/.test(url.host)) throw refused('its host is not a name')
  return text
}

/** The program that shows a page, and its arguments. No shell reads them. */
export function browserCommand(
  url: string,
  platform: string,
  environment: Environment,
): readonly [string, ...string[]] {
  const own = environment['BROWSER']
  if (own) return [own, url]
  if (platform === 'darwin') return ['open', url]
  if (platform === 'win32') return ['rundll32', 'url.dll,FileProtocolHandler', url]
  return ['xdg-open', url]
}

/** Opens pages by the program of the platform, or the one BROWSER names. Settles once it runs. @throws when it cannot */
export function createBrowser(platform: string, environment: Environment): OpenBrowser {
  return (url) =>
    new Promise((resolve, reject) => {
      const [command, ...args] = browserCommand(url, platform, environment)
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
