import { execFile, execFileSync } from 'node:child_process'
import { chmodSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text as readText } from 'node:stream/consumers'
import { promisify } from 'node:util'
import { describe, expect, it, onTestFinished } from 'vitest'
import { cli, place } from '../process.ts'
import { logInLikePerson, startAuthorizationServer, startProtectedServer } from '../upstream/oauth/oauth-servers.ts'

const isThere = (program: string): boolean => {
  try {
    return execFileSync('/bin/sh', ['-c', `command -v ${program}`]).length > 0
  } catch {
    return false
  }
}
const missing = process.platform !== 'linux' || !['dbus-run-session', 'gnome-keyring-daemon'].every(isThere)

/** A desktop session: its bus and its unlocked keyring. */
const SESSION = 'printf pw | gnome-keyring-daemon --unlock --components=secrets >/dev/null 2>&1; exec "$@"'

describe.skipIf(missing)('a login on a desktop', () => {
  it("stores its tokens in the system's keyring, where the next process finds them", async () => {
    const as = await startAuthorizationServer()
    const server = await startProtectedServer(as, { scope: 'read' })
    const person = createServer(async (request, response) => {
      const page = await readText(request)
      response.end()
      await logInLikePerson(page)
    })
    await new Promise<void>((resolve) => person.listen(0, '127.0.0.1', resolve))
    onTestFinished(() => {
      person.closeAllConnections()
      for (const one of [person, as, server]) one.close()
    })
    const where = place({ mcpServers: { web: { url: server.url } } })
    const browser = join(where.dir, 'browser')
    const tell = `http://127.0.0.1:${(person.address() as AddressInfo).port}`
    writeFileSync(browser, `#!${process.execPath}\nfetch('${tell}', { method: 'POST', body: process.argv[2] })\n`)
    chmodSync(browser, 0o755)
    const env = { ...where.env, BROWSER: browser }
    const pegboard = async (...argv: string[]): Promise<string> => {
      const args = ['--', '/bin/sh', '-c', SESSION, 'sh', process.execPath, cli, ...argv, '--config', where.config]
      return (await promisify(execFile)('dbus-run-session', args, { env })).stdout
    }
    const kept = (): string => {
      const folder = join(String(where.env['PEGBOARD_STATE_DIR']), 'auth')
      return readdirSync(folder)
        .map((name) => readFileSync(join(folder, name), 'utf8'))
        .join()
    }
    expect(await pegboard('auth', 'web')).toContain('The tokens are in the keyring of this system.')
    expect(kept()).toContain('"keyring":')
    expect(await pegboard('call', 'mcp_web.who')).toBe('alice\n')
    const sent = server.tokens.filter((token) => token !== undefined)
    expect(sent.length).toBeGreaterThan(0)
    for (const token of sent) expect(kept()).not.toContain(token)
    expect(await pegboard('auth', 'web', '--logout')).toBe('Logged out of web.\n')
    await expect(pegboard('call', 'mcp_web.who')).rejects.toMatchObject({
      stderr: expect.stringContaining('E_AUTH_REQUIRED'),
    })
  }, 120_000)
})
