import { chmod, mkdtemp, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { checkBearer, createBearerToken, loadOrCreateToken, parseBearer } from '../../src/server/bearer-tokens.ts'

describe('the token file', () => {
  let folder: string
  let file: string
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'pegboard-auth-'))
    file = join(folder, 'state', 'token')
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))

  it('is created on first use, private to its owner, with 256 random bits', async () => {
    const token = await loadOrCreateToken(file)
    expect(token).toMatch(/^[A-Za-z0-9_-]{43}$/)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
    expect(await readFile(file, 'utf8')).toBe(`${token}\n`)
  })

  it('keeps its token', async () => {
    const token = await loadOrCreateToken(file)
    expect(await loadOrCreateToken(file)).toBe(token)
  })

  it('gives the same token to processes that start together', async () => {
    const tokens = await Promise.all(Array.from({ length: 8 }, () => loadOrCreateToken(file)))
    expect(new Set(tokens).size).toBe(1)
  })

  it('is made private when its permissions are loose', async () => {
    const token = await loadOrCreateToken(file)
    await chmod(file, 0o644)
    expect(await loadOrCreateToken(file)).toBe(token)
    expect((await stat(file)).mode & 0o777).toBe(0o600)
  })

  it.each([
    ['nothing', ''],
    ['something too short', 'short'],
    ['two words', 'a token must not have blanks'],
  ])('is rejected by name when it contains %s', async (_what, content) => {
    const bad = join(folder, 'token')
    await writeFile(bad, content, { mode: 0o600 })
    await expect(loadOrCreateToken(bad)).rejects.toMatchObject({
      code: 'E_CONFIG_AUTH',
      message: `The token file ${bad} cannot be used: it holds no token.`,
    })
  })

  it('is rejected when it is a link or a folder', async () => {
    const real = join(folder, 'real')
    await writeFile(real, 'a-token-somebody-else-chose\n', { mode: 0o644 })
    await symlink(real, join(folder, 'link'))
    await expect(loadOrCreateToken(join(folder, 'link'))).rejects.toMatchObject({ code: 'E_CONFIG_AUTH' })
    await expect(loadOrCreateToken(folder)).rejects.toMatchObject({ code: 'E_CONFIG_AUTH' })
    expect((await stat(real)).mode & 0o777).toBe(0o644)
  })
})

describe('the bearer check', () => {
  const tokens = [
    createBearerToken('first-token-0123456789'),
    createBearerToken('second-token-0123456789', { principal: 'ci' }),
  ]

  const check = (header: string | undefined, known = tokens) => {
    const token = parseBearer(header)
    return token === undefined ? undefined : checkBearer(token, known)
  }

  it('names the principal of the token', () => {
    expect(check('Bearer first-token-0123456789')?.principal).toBe('local')
    expect(check('bearer second-token-0123456789')?.principal).toBe('ci')
  })

  it.each([
    undefined,
    '',
    'Bearer',
    'Bearer ',
    'Bearer first-token',
    'Bearer first-token-0123456789x',
    'Bearer first-token-0123456789\n',
    'Bearer first-token-0123456789, Bearer x',
    'Basic first-token-0123456789',
    'first-token-0123456789',
  ])('rejects %j', (header) => {
    expect(check(header)).toBeUndefined()
  })

  it('rejects everything when there are no tokens', () => {
    expect(check('Bearer x', [])).toBeUndefined()
  })
})
