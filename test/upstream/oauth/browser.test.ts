import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { browserCommand, browserUrl, createBrowser } from '../../../src/upstream/oauth/browser.ts'
import { until } from '../host.ts'
import { withFolder } from './oauth-servers.ts'

const refusal = (url: string): string => {
  try {
    return browserUrl(new URL(url))
  } catch (error) {
    return (error as { code: string }).code
  }
}

describe('a URL for a browser', () => {
  it.each([
    'javascript:alert(1)',
    'file:///etc/passwd',
    'http://a$(id)b@host/',
    'http://as.example/',
    'https://user:pass@as.example/',
    'data:text/html,x',
    'https://a$(id)b.example/',
  ])('is not %s [AUTH-07]', (url) => expect(refusal(url)).toBe('E_SSRF_BLOCKED'))

  it('is https, or http to this machine', () => {
    expect(refusal('https://as.example/authorize?a=b&c=d')).toBe('https://as.example/authorize?a=b&c=d')
    expect(refusal('http://127.0.0.1:8080/x')).toBe('http://127.0.0.1:8080/x')
  })

  it('contains nothing that ends an argument or begins a command', () =>
    expect(refusal('https://as.example/a b"c\'d`e|f\\g<h>^i?x=" & calc "')).not.toMatch(/["'`|\\<>^\s]/))
})

describe('a browser', () => {
  const url = 'https://as.example/?a=$(id)&b=1'

  it("is started by the platform's program, without a shell", () => {
    expect(browserCommand(url, 'linux', {})).toEqual(['xdg-open', url])
    expect(browserCommand(url, 'darwin', {})).toEqual(['open', url])
    expect(browserCommand(url, 'win32', {})).toEqual(['rundll32', 'url.dll,FileProtocolHandler', url])
    expect(browserCommand(url, 'linux', { BROWSER: '/usr/bin/firefox' })).toEqual(['/usr/bin/firefox', url])
  })

  it('gets the URL as one unchanged argument', () =>
    withFolder(async (dir) => {
      const [program, heard] = [join(dir, 'browser'), join(dir, 'heard')]
      writeFileSync(program, `#!/bin/sh\nprintf '%s\\n' "$#" "$1" > "${heard}"\n`)
      chmodSync(program, 0o755)
      await createBrowser('linux', { ...process.env, BROWSER: program })(url)
      await until(() => {
        try {
          return readFileSync(heard, 'utf8') === `1\n${url}\n`
        } catch {
          return false
        }
      })
    }))

  it('that is missing is reported', async () =>
    await expect(createBrowser('linux', { BROWSER: '/nowhere/browser' })(url)).rejects.toMatchObject({
      code: 'ENOENT',
    }))
})
