import type { IncomingMessage, RequestListener } from 'node:http'
import { expect, test } from 'vitest'
import { temporaryFolder } from '../app.ts'
import { serve } from '../modules/web-servers.ts'
import { PNG } from '../picture-servers.ts'
import { startAppWithClient } from './app-with-client.ts'

const KEY = 'sk-key-of-a-test-0123456789'
const json = (answer: Parameters<RequestListener>[1], value: unknown, status = 200) =>
  answer.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))

const open = (image: object) =>
  startAppWithClient(
    { media: { config: { file_cache_dir: temporaryFolder(), image } } },
    { settings: { services: { fetch: {} } } },
  )

/** ComfyUI with a changed answer on one route. */
async function comfy(odd: Readonly<Record<string, unknown>>, more: object = {}) {
  const asked: string[] = []
  const usual: Readonly<Record<string, unknown>> = {
    '/upload/image': { name: 'a.png', subfolder: '', type: 'input' },
    '/prompt': { prompt_id: 'job' },
    '/history/job': { job: { outputs: { 9: { images: [{ filename: 'a.png' }] } } } },
  }
  const base_url = await serve((request: IncomingMessage, answer) => {
    const { pathname } = new URL(request.url ?? '', 'http://comfy')
    asked.push(`${pathname}`)
    request.resume().on('end', () => {
      const given = pathname in odd ? odd[pathname] : usual[pathname]
      if (given === undefined) return pathname === '/view' ? answer.end(PNG) : json(answer, {})
      return json(answer, given)
    })
  })
  const workflow = { 1: { inputs: { text: '%prompt%', image: '%image%' } } }
  const rig = await open({
    type: 'comfyui',
    base_url,
    workflows: { txt2img: workflow, img2img: workflow },
    workflow_supports: { img2img: true },
    ...more,
  })
  return { ...rig, asked }
}

const outputs = (value: unknown) => ({ '/history/job': { job: { outputs: value } } })
test.each([
  ['a job that is a number', { '/prompt': { prompt_id: 7 } }],
  ['a job that is a thing', { '/prompt': { prompt_id: { toString: 1 } } }],
  ['a job that is a prototype', { '/prompt': { prompt_id: '__proto__' } }],
  ['an empty job', { '/prompt': { prompt_id: '' } }],
  ['a job that leads elsewhere', { '/prompt': { prompt_id: '../prompt' } }],
  ['no outputs', outputs(null)],
  ['outputs in words', outputs('made')],
  ['an output that is nothing', outputs({ 9: null })],
  ['an output in words', outputs({ 9: 'made' })],
  ['pictures in words', outputs({ 9: { images: 'made' } })],
  ['a number of pictures', outputs({ 9: { images: 7 } })],
  ['no pictures', outputs({ 9: { images: null } })],
  ['a picture that is nothing', outputs({ 9: { images: [null] } })],
  ['a picture without a name', outputs({ 9: { images: [{}] } })],
  ['a picture with an odd name', outputs({ 9: { images: [{ filename: { toString: 1 } }] } })],
  ['a picture in an odd folder', outputs({ 9: { images: [{ filename: 'a', subfolder: { toString: 1 }, type: [] }] } })],
  ['a history in words', { '/history/job': { job: 'made' } }],
  ['a status that is nothing', { '/history/job': { job: { status: null, outputs: null } } }],
])(
  'ComfyUI that answers with %s causes a readable error',
  async (what, odd) => {
    const { fails, logged } = await comfy(odd)
    const refusal = await fails('media.generate_image', { prompt: 'a cat' })
    expect(refusal.code, what).toMatch(/^E_(TOOL_FAILED|BACKEND_UNAVAILABLE)$/)
    expect(logged.join(), what).not.toContain('TypeError')
  },
  120_000,
)

test.each([[{ name: { toString: 1 } }], [{ name: 'a', subfolder: { toString: 1 } }], [{}], [{ name: null }]])(
  'ComfyUI that stores a picture under %j causes a readable error',
  async (kept) => {
    const { call, fails } = await comfy({ '/upload/image': kept })
    const { media_id } = await call('media.generate_image', { prompt: 'a cat' })
    expect((await fails('media.generate_image', { prompt: 'a hat', media_id })).code).toMatch(
      /^E_(TOOL_FAILED|BACKEND_UNAVAILABLE)$/,
    )
  },
)

test('ComfyUI that never finishes gets the time limit of a picture, and is then cancelled', async () => {
  const { fails, asked } = await comfy({ '/history/job': {} }, { timeout: 1 })
  expect(await fails('media.generate_image', { prompt: 'a cat' })).toMatchObject({ code: 'E_TIMEOUT' })
  expect(asked).toEqual(expect.arrayContaining(['/queue', '/interrupt']))
}, 120_000)

test('no part of a key appears, wherever it is in a response', async () => {
  let before = 0
  const base_url = await serve((_request, answer) => json(answer, `${'x'.repeat(before)} ${KEY}`, 400))
  const { fails } = await open({ type: 'custom', base_url, api_key: KEY })
  for (before = 265; before < 302; before += 3)
    expect((await fails('media.generate_image', { prompt: 'a cat' })).answerText).not.toContain('sk-')
}, 120_000)
