import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import media from '../../modules/media/index.ts'
import { type Caller, localCaller, noOrigin } from '../../src/core/caller.ts'
import { toMcpResult } from '../../src/server/mcp-results.ts'
import { type Answer, startApp, type TestApp, temporaryFolder } from '../app.ts'
import { keepsTheContract } from '../contract/module.ts'
import { comfyServer, customServer, openAiServer, PNG } from '../picture-servers.ts'

keepsTheContract(media)

const KEY = 'sk-test-0123456789'
const VOICE = { flags: { voice: true } }

interface Rig extends TestApp {
  readonly cache: string
  call(action: string, input?: object, caller?: Caller): Promise<Answer>
  /** The result as a client gets it. */
  shown(action: string, input: object, caller?: Caller): Promise<Answer>
  fails(action: string, input?: object): Promise<Answer>
  names(): readonly string[]
  /** The tool as this caller sees it. */
  tool(action: string, caller?: Caller): Answer
}

async function open(config: object, profile: object = VOICE, profiles: object = {}): Promise<Rig> {
  const dir = temporaryFolder()
  const cache = join(dir, 'cache')
  mkdirSync(cache)
  const started = await startApp(
    {
      modules: { media: { config: { file_cache_dir: cache, ...config } } },
      profiles: { default: profile, ...profiles },
      services: { fetch: { allowPrivate: true } },
    },
    dir,
  )
  const { app } = started
  const run = (action: string, input: object, caller: Caller) =>
    app.surface.call({ name: `media.${action}`, input, caller })
  const call: Rig['call'] = async (action, input = {}, caller = localCaller) => {
    const result = await run(action, input, caller)
    return result.kind === 'value' ? result.value : result
  }
  return {
    ...started,
    cache,
    call,
    shown: async (action, input, caller = localCaller) =>
      toMcpResult(await run(action, input, caller), app.server.files, caller),
    fails: (action, input) =>
      call(action, input).then(
        (value) => expect.fail(`it answered ${JSON.stringify(value)}`),
        (error: unknown) => error,
      ),
    names: () => app.surface.list(localCaller, 'direct').map(({ name }) => name),
    tool: (action, caller = localCaller) =>
      app.surface.list(caller, 'direct').find(({ name }) => name === `media__${action}`),
  }
}

const openai = (url: string, supports: object = {}) => ({
  image: { type: 'openai', base_url: `${url}/v1`, api_key: KEY, workflow_supports: supports },
})
const custom = (url: string, more: object = {}) => ({ image: { type: 'custom', base_url: url, ...more } })
const workflow = {
  3: { class_type: 'KSampler', inputs: { seed: '%seed%', denoise: '%denoise%', width: '%width%', height: '%height%' } },
  6: { class_type: 'CLIPTextEncode', inputs: { text: '%prompt%' } },
  7: { class_type: 'CLIPTextEncode', inputs: { text: 'ugly, %negative_prompt%' } },
  10: { class_type: 'LoadImage', inputs: { image: '%image%' } },
}
const comfy = (url: string, more: object = {}) => ({
  image: { type: 'comfyui', base_url: url, workflows: { txt2img: workflow }, ...more },
})

describe('generate_image', () => {
  it('exists if a backend supports it [TOM-40]', async () => {
    expect((await open({})).names().filter((name) => name.startsWith('media__'))).toEqual([])
    expect((await open(openai('http://127.0.0.1:9'))).names()).toContain('media__generate_image')
    const nothing = { txt2img: false, img2img: false }
    expect((await open(openai('http://127.0.0.1:9', nothing))).names()).not.toContain('media__generate_image')
    // A mode without its own workflow does not exist.
    const none = comfy('http://127.0.0.1:9', { workflows: {} })
    expect((await open(none)).names()).not.toContain('media__generate_image')
  })

  it("has the parameters of its backend's modes, group by group [TOM-41]", async () => {
    const modes = ['img2img', 'inpaint', 'outpaint']
    const profiles = Object.fromEntries(
      Array.from({ length: 8 }, (_, bits) => [
        `p${bits}`,
        {
          modules: {
            media: {
              config: openai(
                'http://127.0.0.1:9',
                Object.fromEntries(modes.map((mode, at) => [mode, Boolean(bits & (1 << at))])),
              ),
            },
          },
        },
      ]),
    )
    const { tool } = await open({}, {}, profiles)
    const reference = ['media_id', 'target_identity', 'denoise']
    const inpaint = [
      'inpaint',
      'mask_prompt',
      'mask_mode',
      'mask_threshold',
      'mask_grow',
      'mask_feather',
      'clothing_segment_categories',
      'clothing_mode',
      'cfg',
      'inpaint_preset',
      'inpaint_mode',
    ]
    const outpaint = [
      'outpaint',
      'outpaint_strategy',
      'outpaint_amount',
      'outpaint_left_prompt',
      'outpaint_right_prompt',
      'outpaint_top_prompt',
      'outpaint_bottom_prompt',
      'extend_direction',
      'extend_pixels',
      'outpaint_overlap',
      'outpaint_zoom_scale',
    ]
    const seen = Array.from({ length: 8 }, (_, bits) =>
      Object.keys(tool('generate_image', { ...localCaller, profile: `p${bits}` }).inputSchema.properties).slice(2),
    )
    expect(seen).toEqual([
      [],
      reference,
      [...reference, ...inpaint],
      [...reference, ...inpaint],
      [...reference, ...outpaint],
      [...reference, ...outpaint],
      [...reference, ...inpaint, ...outpaint],
      [...reference, ...inpaint, ...outpaint],
    ])
  })

  it('mentions nothing its backend cannot do [TOM-42]', async () => {
    const words = (await open(openai('http://127.0.0.1:9'))).tool('generate_image')
    expect(JSON.stringify(words.inputSchema)).not.toMatch(/inpaint|outpaint|mask|denoise|img2img|media/i)
    expect(words.description).toBe('Generate an image (picture) from text. The image goes to the user at once.')
    const tool = (await open(openai('http://127.0.0.1:9', { inpaint: true }))).tool('generate_image')
    expect(tool.inputSchema.properties.prompt.description).toBe(
      'What to show. With inpaint: what to put into the masked part.',
    )
    expect(JSON.stringify(tool)).not.toMatch(/outpaint/i)
  })

  it('describes default tags to the model, and sends negative ones only to backends that accept them [TOM-43]', async () => {
    const tags = { default_positive_tags: 'masterpiece', default_negative_tags: 'blurry' }
    const [drawing, plain, negative] = [await comfyServer(), await customServer(), await customServer()]
    const first = await open(comfy(drawing.url, tags))
    expect(first.tool('generate_image').inputSchema.properties.prompt.description).toBe(
      'What to show. Added to the prompt: masterpiece.',
    )
    await first.call('generate_image', { prompt: 'a cat', aspect_ratio: '16:9' })
    const { prompt } = drawing.asked.find(({ path }) => path === '/prompt')?.body ?? {}
    expect([prompt[6].inputs.text, prompt[7].inputs.text]).toEqual(['a cat, masterpiece', 'ugly, blurry'])
    expect(prompt[3].inputs).toMatchObject({ width: 1344, height: 768, seed: expect.any(Number) })
    await (await open(custom(plain.url, tags))).call('generate_image', { prompt: 'a cat' })
    expect(plain.asked[0]?.body).toEqual({ mode: 'txt2img', prompt: 'a cat, masterpiece', width: 1024, height: 1024 })
    const takes = { ...tags, workflow_supports: { negative_prompt: true } }
    await (await open(custom(negative.url, takes))).call('generate_image', { prompt: 'a cat' })
    expect(negative.asked[0]?.body.negative_prompt).toBe('blurry')
  })

  it('reports how an image is made [TOM-44]', async () => {
    const { url } = await customServer()
    const settings = {
      default_negative_tags: 'blurry',
      saved_tags: { ann: 'red hair', 'Peg the Robot': 'brass', bob: 'bald' },
      workflow_supports: { img2img: true, negative_prompt: true },
    }
    const rig = await open(custom(url, settings))
    const ann: Caller = { ...localCaller, origin: { ...noOrigin, platform: 'chat', userId: '7', userName: 'ann' } }
    const hint = 'Image tags are set in modules.media.config.image (default_positive_tags, saved_tags).'
    const plain = await rig.call('generate_image', { prompt: 'a kebab' })
    expect(plain.notices).toEqual(['Default negative tags: blurry', hint])
    writeFileSync(join(rig.cache, 'me.png'), PNG)
    await rig.call('add_media', { path: 'me.png', kind: 'avatar' })
    await rig.call('add_media', { path: 'file_cache_dir/me.png' })
    const input = { prompt: 'me beside peg-the-robot', media_id: 'media_2, media_3' }
    expect((await rig.call('generate_image', input, ann)).notices).toEqual([
      'Default negative tags: blurry',
      hint,
      'Saved tags used: ann (red hair); Peg the Robot (brass)',
      'Avatar references: media_2',
      'Image references: media_3',
    ])
    const without = await open(custom(url, { default_negative_tags: 'blurry' }))
    expect((await without.call('generate_image', { prompt: 'a cat' })).notices).toEqual([hint])
  })

  it('returns the image, and an id for later changes [TOM-45]', async () => {
    const server = await openAiServer(KEY)
    const { shown, call, cache } = await open(openai(server.url, { img2img: true }))
    const answer = await shown('generate_image', { prompt: 'a cat' })
    expect(answer.content[1]).toMatchObject({
      type: 'image',
      mimeType: 'image/png',
      data: PNG.toString('base64'),
    })
    const { media_id, path } = answer.structuredContent
    expect(media_id).toBe('media_1')
    expect(readFileSync(path.replace('file_cache_dir', cache))).toEqual(PNG)
    expect(await call('generate_image', { prompt: 'a hat on it', media_id, aspect_ratio: '9:16' })).toMatchObject({
      media_id: 'media_2',
      mode: 'img2img',
    })
    const [made, edited] = server.asked
    expect(made?.body).toEqual({ model: 'gpt-image-1', prompt: 'a cat', n: 1, size: '1024x1024' })
    expect([edited?.path, edited?.body.size]).toEqual(['/v1/images/edits', '1024x1536'])
    expect(edited?.files).toEqual([{ field: 'image', name: 'media_1.png', bytes: PNG }])
    const { media } = await call('list_media')
    for (const { created_at } of media) expect(new Date(created_at).toISOString()).toBe(created_at)
    expect(media).toMatchObject([
      { media_id: 'media_2', origin: 'generated', caption: 'a hat on it' },
      { media_id: 'media_1', mimetype: 'image/png', bytes: 70 },
    ])
  })

  it('are visible to their principal only', async () => {
    const server = await openAiServer(KEY)
    const { call } = await open(openai(server.url, { img2img: true }))
    const [ann, bob] = ['ann', 'bob'].map((principal) => ({ ...localCaller, principal }))
    await call('generate_image', { prompt: 'mine' }, ann)
    expect((await call('list_media', {}, bob)).media).toEqual([])
    await expect(call('generate_image', { prompt: 'x', media_id: 'media_1' }, bob)).rejects.toMatchObject({
      code: 'E_NOT_FOUND',
    })
  })

  it('rejects unsupported modes and missing images, without a request [TOM-46]', async () => {
    const server = await customServer()
    const words = await open(custom(server.url))
    expect((await words.fails('generate_image', { prompt: 'x', inpaint: true, mask_prompt: 'hat' })).code).toBe(
      'E_VALIDATION',
    )
    const changing = await open(custom(server.url, { workflow_supports: { img2img: true, inpaint: true } }))
    const fails = (input: object) => changing.fails('generate_image', { prompt: 'x', ...input })
    expect(await fails({ media_id: 'media_9' })).toMatchObject({
      code: 'E_NOT_FOUND',
      message: 'Unknown image: media_9.',
    })
    expect(await fails({ inpaint: true })).toMatchObject({ message: 'inpaint needs an image.' })
    expect((await fails({ media_id: 'a,b,c,d' })).message).toBe('You passed 4 images; the limit is 3.')
    expect((await fails({ outpaint: true, media_id: 'media_1' })).code).toBe('E_VALIDATION')
    expect(server.asked).toEqual([])
  })

  it('rejects references that are not images or too large', async () => {
    const { fails, cache, call } = await open(custom('http://127.0.0.1:9', { workflow_supports: { img2img: true } }))
    writeFileSync(join(cache, 'a.png'), 'not a picture')
    expect((await fails('add_media', { path: 'a.png' })).message).toBe(
      'The file is not an image (PNG, JPEG, WebP or GIF).',
    )
    expect((await fails('add_media', { path: '../b.png' })).code).toBe('E_PATH_OUTSIDE_ROOT')
    expect((await fails('add_media', {})).code).toBe('E_VALIDATION')
    writeFileSync(join(cache, 'big.png'), Buffer.concat([PNG, Buffer.alloc(7 * 1024 * 1024)]))
    const { media_id } = await call('add_media', { path: 'big.png' })
    expect((await fails('generate_image', { prompt: 'x', media_id })).code).toBe('E_TOO_LARGE')
  })

  it('accepts an image from a guarded address', async () => {
    const server = await openAiServer(KEY)
    const { call } = await open(openai(server.url, { img2img: true }))
    expect(await call('add_media', { url: `${server.url}/made.png` })).toMatchObject({ mimetype: 'image/png' })
    const closed = await startApp({
      modules: { media: { config: openai(server.url, { img2img: true }) } },
    })
    const input = { url: `${server.url}/made.png` }
    await expect(
      closed.app.surface.call({ name: 'media.add_media', input, caller: localCaller }),
    ).rejects.toMatchObject({ code: 'E_SSRF_BLOCKED' })
  })
})

describe('image backends', () => {
  it('like OpenAI may return an address, and their key appears in no message', async () => {
    const server = await openAiServer(KEY, undefined, true)
    expect(await (await open(openai(server.url))).call('generate_image', { prompt: 'a cat' })).toMatchObject({
      bytes: 70,
    })
    const wrong = { image: { type: 'openai', base_url: `${server.url}/v1`, api_key: 'sk-wrong-987654321' } }
    const { fails, logged } = await open(wrong)
    const error = await fails('generate_image', { prompt: 'a cat' })
    expect(error).toMatchObject({ code: 'E_BACKEND_UNAVAILABLE' })
    expect(error.message).toContain('Bearer <key>')
    expect([error.message, ...logged].join()).not.toContain('sk-wrong-987654321')
  })

  it('like ComfyUI get their image and parameters, and are awaited', async () => {
    const server = await comfyServer()
    const config = comfy(server.url, {
      workflows: { txt2img: workflow, img2img: workflow },
      workflow_supports: { img2img: true },
    })
    const { call } = await open(config)
    const { media_id } = await call('generate_image', { prompt: 'a cat' })
    await call('generate_image', { prompt: 'a hat', media_id, denoise: 0.4 })
    const uploaded = server.asked.find(({ path }) => path === '/upload/image')
    expect(uploaded?.files[0]?.bytes).toEqual(PNG)
    const { prompt } = server.asked.filter(({ path }) => path === '/prompt').at(-1)?.body ?? {}
    expect([prompt[3].inputs.denoise, prompt[10].inputs.image]).toEqual([0.4, uploaded?.files[0]?.name])
    const failing = await open(comfy((await comfyServer(true)).url))
    expect((await failing.fails('generate_image', { prompt: 'x' })).message).toBe('The workflow failed.')
  })

  it('like ComfyUI get a cancel request when a call is cancelled', async () => {
    const server = await comfyServer(false, true)
    const { app } = await open(comfy(server.url))
    const stop = new AbortController()
    const input = { prompt: 'x' }
    const made = app.surface.call({ name: 'media.generate_image', input, caller: localCaller, signal: stop.signal })
    const ended = expect(made).rejects.toMatchObject({ code: 'E_CANCELLED' })
    await expect.poll(() => server.asked.some(({ path }) => path.startsWith('/history'))).toBe(true)
    stop.abort()
    await ended
    await expect.poll(() => server.asked.map(({ path }) => path)).toContain('/interrupt')
    expect(server.asked.find(({ path }) => path === '/queue')?.body).toEqual({ delete: ['job-1'] })
  })

  it('that are programs get values for their placeholders, without a shell', async () => {
    const dir = temporaryFolder()
    writeFileSync(join(dir, 'red.png'), PNG)
    writeFileSync(
      join(dir, 'draw.mjs'),
      `import { copyFileSync, readFileSync, writeFileSync } from 'node:fs'
       const [from, to, words, file] = process.argv.slice(2)
       writeFileSync('${join(dir, 'seen')}', words + '|' + readFileSync(file, 'utf8'))
       copyFileSync(from, to)`,
    )
    const args = [join(dir, 'draw.mjs'), join(dir, 'red.png'), '%output%', '--words=%prompt%', '%prompt_file%']
    const { call, fails } = await open({ image: { type: 'command', command: 'node', args } })
    expect(await call('generate_image', { prompt: '$(touch x); "a"' })).toMatchObject({ mimetype: 'image/png' })
    expect(readFileSync(join(dir, 'seen'), 'utf8')).toBe('--words=$(touch x); "a"|$(touch x); "a"')
    const broken = {
      image: { type: 'command', command: 'node', args: ['-e', 'console.error("no paint"); process.exit(3)'] },
    }
    expect((await (await open(broken)).fails('generate_image', { prompt: 'x' })).message).toBe(
      'The program failed with code 3: no paint',
    )
    expect((await fails('generate_image', {})).code).toBe('E_VALIDATION')
  })
})

describe('generate_voice_message', () => {
  const speech = (more: object) => ({
    speech: { type: 'openai', base_url: 'http://127.0.0.1:9', persona_voice: 'nova', ...more },
  })

  it("describes its backend's markup, and accepts instructions if a voice can be designed [TOM-48]", async () => {
    const seen = []
    for (const more of [
      { script_markup: 'brackets' },
      { script_markup: 'plain' },
      { script_markup: 'emoji' },
      { script_markup: 'voice_design', voice_design: true },
    ]) {
      const { description, inputSchema } = (await open(speech(more))).tool('generate_voice_message')
      seen.push([description.split('unasked. ')[1], Object.keys(inputSchema.properties)])
    }
    expect(seen).toEqual([
      ['Put the tone into brackets in the script, such as [laughs] or [whispers].', ['title', 'script']],
      ['Write the script as plain words: marks would be read aloud.', ['title', 'script']],
      ['End a sentence of the script with an emoji to set its tone.', ['title', 'script']],
      ['Write the script as plain words; the voice follows its meaning.', ['title', 'script', 'voice_instructions']],
    ])
  })

  it('does not exist without a backend, a voice or the flag', async () => {
    const there = async (config: object, profile?: object) =>
      (await open(config, profile)).names().includes('media__generate_voice_message')
    expect([
      await there(speech({})),
      await there({}),
      await there(speech({ persona_voice: undefined })),
      await there(speech({}), {}),
      await there({ speech: { type: 'local' } }),
    ]).toEqual([true, false, false, false, true])
  })

  it('returns the audio, named after its title [TOM-49]', async () => {
    const server = await openAiServer(KEY)
    const config = { base_url: `${server.url}/v1`, api_key: KEY, voice_design: true, script_markup: 'voice_design' }
    const { shown, cache, fails } = await open(speech(config))
    const title = 'Good morning, dear / friends of the sea and of the wide sky'
    const answer = await shown('generate_voice_message', { title, script: ' Hello! ', voice_instructions: 'old' })
    expect(answer.content[1]).toMatchObject({
      type: 'audio',
      mimeType: 'audio/ogg',
      data: Buffer.from('OggS and more').toString('base64'),
    })
    const { path } = answer.structuredContent
    expect(path.split('/').at(-1)).toBe('Good_morning_dear__friends_of_the_sea_an.ogg')
    expect(readFileSync(path.replace('file_cache_dir', cache), 'latin1')).toBe('OggS and more')
    expect(server.asked[0]?.body).toEqual({
      model: 'gpt-4o-mini-tts',
      voice: 'nova',
      input: 'Hello!',
      response_format: 'opus',
      instructions: 'old',
    })
    expect((await fails('generate_voice_message', { title: 'x', script: '  ' })).message).toBe('The script is empty.')
  })

  it('runs a program, and reports if it produces no audio', async () => {
    const args = ['-e', 'require("fs").writeFileSync(process.argv[1], process.argv[2])', '%output%', 'RIFF %script%']
    const { shown } = await open({ speech: { type: 'command', command: 'node', args, persona_voice: 'x' } })
    const answer = await shown('generate_voice_message', { title: '', script: 'hi' })
    expect(answer.content[1]).toMatchObject({ mimeType: 'audio/wav' })
    expect(answer.structuredContent.path).toMatch(/\/voice\.wav$/)
    const silent = ['-e', 'require("fs").writeFileSync(process.argv[1], "text")', '%output%']
    const { fails } = await open({ speech: { type: 'command', command: 'node', args: silent, persona_voice: 'x' } })
    expect((await fails('generate_voice_message', { title: 'x', script: 'hi' })).message).toContain(
      'unknown sound format',
    )
  })

  const real = ['/usr/bin/espeak-ng', '/usr/bin/ffmpeg'].every((path) => existsSync(path))
  it.runIf(real)('speaks with local programs: real Opus', async () => {
    const { call, cache } = await open({ speech: { type: 'local' } })
    const { path } = await call('generate_voice_message', { title: 'Test', script: 'Good morning.' })
    const probe = ['-v', 'error', '-show_entries', 'stream=codec_name', '-of', 'csv=p=0']
    expect(execFileSync('ffprobe', [...probe, path.replace('file_cache_dir', cache)], { encoding: 'utf8' })).toBe(
      'opus\n',
    )
  })
})

describe('on a fresh installation without the file folder', () => {
  const fresh = async (config: object, file_cache_dir?: string) => {
    const dir = temporaryFolder()
    const { app } = await startApp(
      {
        modules: { media: { config: { ...(file_cache_dir && { file_cache_dir }), ...config } } },
        profiles: { default: VOICE },
        services: { fetch: { allowPrivate: true } },
      },
      dir,
      { env: { PATH: process.env['PATH'], HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state') } },
    )
    const call = async (name: string, input: object) =>
      ((await app.surface.call({ name, input, caller: localCaller })) as Answer).value
    return { call, dir }
  }
  const both = async () => {
    const server = await openAiServer(KEY)
    const base_url = `${server.url}/v1`
    const config = {
      image: { type: 'openai', base_url, api_key: KEY },
      speech: { type: 'openai', base_url, api_key: KEY, persona_voice: 'nova' },
    }
    return { server, config }
  }

  it('creates it for the first image and voice message [TOM-45, TOM-49]', async () => {
    const { config } = await both()
    const { call } = await fresh(config)
    expect(await call('media.generate_image', { prompt: 'a lighthouse' })).toMatchObject({ media_id: 'media_1' })
    expect(await call('media.generate_voice_message', { title: 'Hello', script: 'Hello.' })).toMatchObject({
      mimetype: 'audio/ogg',
    })
  })

  it('sends no request if nothing can be stored, and names the setting', async () => {
    const { server, config } = await both()
    const file = join(temporaryFolder(), 'a-file')
    writeFileSync(file, '')
    const { call } = await fresh(config, join(file, 'files'))
    for (const [name, input] of [
      ['media.generate_image', { prompt: 'a lighthouse' }],
      ['media.generate_voice_message', { title: 'Hello', script: 'Hello.' }],
    ] as const)
      await expect(call(name, input)).rejects.toMatchObject({
        code: 'E_BACKEND_UNAVAILABLE',
        message: 'Cannot create the folder for files (modules.media.config.file_cache_dir).',
      })
    expect(server.asked).toEqual([])
  })
})
