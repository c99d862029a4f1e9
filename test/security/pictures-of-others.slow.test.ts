import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, utimesSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { answerOf, temporaryFolder } from '../app.ts'
import { serve } from '../modules/web-servers.ts'
import { PNG } from '../picture-servers.ts'
import { ANN, connectWithToken, EVE, startHttpApp, TOKENS_OF_TWO as tokens } from './http-app.ts'

type Who = Awaited<ReturnType<typeof connectWithToken>>
const call = (who: Who, name: string, input: object = {}) => who.callTool({ name, arguments: { ...input } })

/** The whole product with editable pictures, and the folder that stores them. */
async function pictures(settings: Record<string, unknown> = {}, http: Record<string, unknown> = { tokens }) {
  const dir = temporaryFolder()
  const cache = join(dir, 'cache')
  mkdirSync(cache)
  const base_url = await serve((_request, answer) => answer.setHeader('content-type', 'image/png').end(PNG))
  const image = { type: 'custom', base_url, workflow_supports: { img2img: true } }
  const modules = { media: { config: { file_cache_dir: cache, image } } }
  return { server: await startHttpApp(http, { ...settings, modules }, { dir }), cache }
}

test('a guessed path does not reach a picture of another principal', async () => {
  const { server } = await pictures()
  const [ann, eve] = [await connectWithToken(server.url, ANN), await connectWithToken(server.url, EVE)]
  const made = answerOf(await call(ann, 'media__generate_image', { prompt: 'mine' }))
  expect(made.media_id).toBe('media_1')
  for (const name of ['ann', 'ann\n', 'ann\ndefault', 'default\nann'])
    for (const digest of ['hex', 'base64url'] as const)
      for (const length of [16, 24]) {
        const folder = createHash('sha256').update(name).digest(digest).slice(0, length)
        for (const path of [`media/${folder}/media_1.png`, `media/${folder}/x/../media_1.png`])
          expect(await call(eve, 'media__add_media', { path }), path).toMatchObject({ isError: true })
      }
  // Her own pictures are at the documented path.
  expect(answerOf(await call(ann, 'media__add_media', { path: made.path }))).toMatchObject({ bytes: PNG.length })
  expect(answerOf(await call(eve, 'media__list_media')).media).toEqual([])
}, 120_000)

test('pictures of one principal in two profiles are stored separately', async () => {
  const both = [
    { token: ANN, principal: 'ann', profile: 'work' },
    { token: EVE, principal: 'ann', profile: 'home' },
  ]
  const { server, cache } = await pictures({ profiles: { work: {}, home: {} } }, { tokens: both })
  const [work, home] = [await connectWithToken(server.url, ANN), await connectWithToken(server.url, EVE)]
  const one = answerOf(await call(work, 'media__generate_image', { prompt: 'at work' }))
  const other = answerOf(await call(home, 'media__generate_image', { prompt: 'at home' }))
  expect([one.media_id, other.media_id]).toEqual(['media_1', 'media_1'])
  expect(other.path).not.toBe(one.path)
  expect(readdirSync(join(cache, 'media'))).toHaveLength(2)
}, 120_000)

test('pictures without a valid id are deleted', async () => {
  const { server, cache } = await pictures()
  const ann = await connectWithToken(server.url, ANN)
  const draw = async () => answerOf(await call(ann, 'media__generate_image', { prompt: 'mine' })).path
  const files = (await Promise.all([draw(), draw()])).map((path) => join(cache, path.replace('file_cache_dir/', '')))
  const [old = '', young = ''] = files
  const week = Date.now() / 1_000 - 8 * 24 * 60 * 60
  utimesSync(old, week, week)
  await draw()
  expect([existsSync(old), existsSync(young)]).toEqual([false, true])
}, 120_000)
