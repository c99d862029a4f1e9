import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { systemPrompt } from '../../src/agent/tools-prompt.ts'
import type { App } from '../../src/app/app.ts'
import { type Caller, localCaller } from '../../src/core/caller.ts'
import { toErrorResult, toMcpResult } from '../../src/server/mcp-results.ts'
import { readOwnResource } from '../../src/server/own-resources.ts'
import { type Answer, answerOf, startApp, temporaryFolder } from '../app.ts'

/** A backend for all requests: counts them, and fails while `status` is not 200. */
async function backend() {
  const seen: string[] = []
  const state = { status: 200 }
  const server = createServer((request, response) => {
    seen.push(`${request.method} ${request.url}`)
    response.statusCode = state.status
    response.end('[]')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen, state }
}

const modulesDir = join(import.meta.dirname, '../fixtures/modules')
const fixture = { override: true }

async function start(profiles: Record<string, object>) {
  const started = await startApp({ modulesDir, autoload: false, modules: { web: fixture, media: fixture }, profiles })
  const callerOf = (profile: string): Caller => ({ ...localCaller, profile })
  /** The answer that a client gets for a call. */
  const call = async (profile: string, name: string, input: object = {}): Promise<Answer> => {
    try {
      const caller = callerOf(profile)
      return toMcpResult(await started.app.surface.call({ name, input, caller }), started.app.server.files, caller)
    } catch (error) {
      return toErrorResult(error as never, false)
    }
  }
  return { ...started, callerOf, call }
}

const web = (config: object) => ({ modules: { web: { config } } })

/** The schema of a tool on every route that shows it; it must be equal. */
async function schemaOf(app: App, caller: Caller, id: string): Promise<Answer> {
  const ask = async (name: string, input: object) =>
    answerOf(toMcpResult(await app.surface.call({ name, input, caller }), app.server.files, caller))
  const [category] = id.split('.') as [string]
  const listed = app.surface.list(caller, 'direct').find(({ name }) => name === id.replace('.', '__'))
  const { description, parameters } = await ask('get_tool', { name: id })
  const found = await ask('search_tools', { query: id, detail: 'full' })
  const own = (await readOwnResource(app.server, caller, `schema://${category}`)) as Answer
  const read = JSON.parse(own.contents[0].text).actions.find(({ name }: { name: string }) => name === id)
  const row = found.tools.find(({ name }: { name: string }) => name === id)
  const prompt = systemPrompt({
    view: app.view(caller),
    exposure: { ...app.exposure(caller), mode: 'direct' },
    surface: app.surface,
    mode: 'text',
  })
  expect(prompt).toContain(`${description}\nParameters (JSON Schema): ${JSON.stringify(listed?.inputSchema)}`)
  for (const other of [parameters, row.parameters, read.parameters]) expect(other).toEqual(listed?.inputSchema)
  expect([listed?.description, read.description]).toEqual([description, description])
  return { ...listed?.inputSchema, description }
}

describe('a search over the engines of a profile', () => {
  it('offers their categories, without changing the tool itself', async () => {
    const { app, callerOf } = await start({
      all: web({ searxng_url: 'http://127.0.0.1:9' }),
      some: web({ brave_url: 'http://127.0.0.1:9', duckduckgo_url: 'http://127.0.0.1:9' }),
      text: web({ duckduckgo_url: 'http://127.0.0.1:9' }),
    })
    const tool = app.catalog.snapshot().byId.get('web.web_search')
    const before = structuredClone({ json: tool?.input.json, description: tool?.description })
    const seen = async (profile: string) => {
      const { properties, description } = await schemaOf(app, callerOf(profile), 'web.web_search')
      expect(description).not.toMatch(/may be unavailable|not be available|might fail/i)
      return properties.category?.enum
    }
    expect(await seen('all')).toEqual(['text', 'image', 'video', 'news', 'papers', 'code', 'files', 'music'])
    expect(await seen('some')).toEqual(['text', 'image', 'video', 'news'])
    expect(await seen('text')).toBeUndefined()
    expect(await seen('all')).toHaveLength(8)
    expect({ json: tool?.input.json, description: tool?.description }).toEqual(before)
    expect(app.catalog.snapshot().byId.get('web.web_search')).toBe(tool)
  })

  it('is found by words of the whole tool, and shown as assembled for the caller', async () => {
    const { call } = await start({ text: web({ duckduckgo_url: 'http://127.0.0.1:9' }) })
    const { tools } = answerOf(await call('text', 'search_tools', { query: 'search music and papers' }))
    expect(tools[0]).toMatchObject({
      name: 'web.web_search',
      description: 'Searches the web for text and answers with titles and addresses.',
      params_summary: 'query: str, count?: int = 10',
    })
  })

  it('rejects a category it does not offer before any request [TOM-13, SCH-02]', async () => {
    const { url, seen } = await backend()
    const { call } = await start({ text: web({ duckduckgo_url: url }), some: web({ brave_url: url }) })
    const refused = await call('text', 'web.web_search', { query: 'cats', category: 'image' })
    expect(refused.isError).toBe(true)
    expect(refused.content[0].text).toBe(
      'E_VALIDATION: Invalid params for web.web_search: category: "image" is not available here. Call web.web_search(query: str, count?: int = 10).',
    )
    for (const name of ['web__web_search', 'execute_tool'])
      expect(
        (
          await call(
            'some',
            name,
            name === 'execute_tool'
              ? { name: 'web.web_search', params: { query: 'x', category: 'music' } }
              : { query: 'x', category: 'music' },
          )
        ).content[0].text,
      ).toMatch(/^E_VALIDATION: Invalid params for web\.web_search: category: /)
    expect(seen).toEqual([])
    expect((await call('text', 'web.web_search', { query: 'cats' })).isError).not.toBe(true)
    expect(seen).toEqual(['GET /?q=cats&n=10'])
  })

  it('checks again when it runs, because an engine may be gone', async () => {
    const { url, seen, state } = await backend()
    const { call } = await start({ some: web({ brave_url: url }) })
    state.status = 500
    const search = () => call('some', 'web.web_search', { query: 'cats', category: 'image' })
    expect((await search()).content[0].text).toContain('brave answered 500')
    const again = await search()
    expect([again.isError, again.content[0].text]).toEqual([
      true,
      expect.stringContaining('No engine available for category "image"'),
    ])
    expect(seen).toHaveLength(1)
  })

  it('is neither listed nor mentioned if the profile has no engine', async () => {
    const { app, callerOf, call } = await start({ none: web({}), text: web({ duckduckgo_url: 'http://127.0.0.1:9' }) })
    const described = (profile: string) => app.view(callerOf(profile)).byId.get('web.fetch_url')?.description ?? ''
    expect(described('text')).toContain('web__web_search')
    expect(app.surface.list(callerOf('none'), 'direct').map(({ name }) => name)).not.toContain('web__web_search')
    expect((await call('none', 'web.web_search', { query: 'x' })).content[0].text).toMatch(/^E_TOOL_HIDDEN: /)
  })
})

describe('a tool that some providers cannot use', () => {
  it('is hidden from their profiles, and a direct call is rejected', async () => {
    const { app, callerOf, call } = await start({ novel: { provider: 'NovelAI' }, other: { provider: 'openai' } })
    const names = (profile: string) => app.surface.list(callerOf(profile), 'direct').map(({ name }) => name)
    expect([names('novel').includes('web__fetch_url'), names('other').includes('web__fetch_url')]).toEqual([
      false,
      true,
    ])
    expect((await call('novel', 'fetch_url', { url: 'http://127.0.0.1:9/' })).content[0].text).toBe(
      'E_TOOL_HIDDEN: web.fetch_url is not available: it is not for novelai. Use another tool until that has changed.',
    )
  })
})

const image = (url: string, ...modes: string[]) => ({ modules: { media: { config: { image: { url, modes } } } } })

describe('an image tool', () => {
  it('without a backend is neither listed nor found, and execute_tool says it is unavailable', async () => {
    const { app, callerOf, call } = await start({ some: image('http://127.0.0.1:9', 'txt2img') })
    const names = (profile: string) => app.surface.list(callerOf(profile), 'direct').map(({ name }) => name)
    expect([
      names('default').includes('media__generate_image'),
      names('some').includes('media__generate_image'),
    ]).toEqual([false, true])
    const found = answerOf(await call('default', 'search_tools', { query: 'generate_image picture', max_results: 20 }))
    expect(found.tools.map(({ name }: Answer) => name)).not.toContain('media.generate_image')
    const refused = await call('default', 'execute_tool', { name: 'media.generate_image', params: { prompt: 'a cat' } })
    expect(refused.content[0].text).toBe(
      'E_TOOL_HIDDEN: media.generate_image is not available: what it needs is not set in modules.media.config. Use another tool until that has changed.',
    )
  })

  it("has the parameters of its backend's features, group by group", async () => {
    const modes = ['img2img', 'inpaint', 'outpaint']
    const combinations = Array.from({ length: 8 }, (_, bits) => modes.filter((_mode, at) => bits & (1 << at)))
    const { app, callerOf } = await start(
      Object.fromEntries(combinations.map((some, at) => [`p${at}`, image('http://127.0.0.1:9', 'txt2img', ...some)])),
    )
    const reference = ['media_id', 'target_identity', 'denoise']
    for (const [at, some] of combinations.entries()) {
      const schema = await schemaOf(app, callerOf(`p${at}`), 'media.generate_image')
      expect(Object.keys(schema.properties), some.join()).toEqual([
        'prompt',
        'aspect_ratio',
        ...(some.length > 0 ? reference : []),
        ...(some.includes('inpaint') ? ['inpaint_target', 'inpaint_feather'] : []),
        ...(some.includes('outpaint') ? ['outpaint_direction', 'outpaint_pixels'] : []),
      ])
      if (some.length === 0) expect(JSON.stringify(schema)).not.toMatch(/inpaint|outpaint|mask|denoise|img2img/i)
    }
  })

  it('rejects what its backend cannot do, and unknown images, without a request', async () => {
    const { url, seen } = await backend()
    const { call } = await start({ words: image(url, 'txt2img'), change: image(url, 'txt2img', 'img2img') })
    const inpainting = { prompt: 'a hat', media_id: 'media_1', inpaint_target: 'head' }
    expect((await call('words', 'generate_image', inpainting)).content[0].text).toBe(
      'E_VALIDATION: Invalid params for media.generate_image: media_id: "media_1" is not available here; inpaint_target: "head" is not available here. Call media.generate_image(prompt: str, aspect_ratio?: "1:1"|"3:2"|"2:3"|"16:9").',
    )
    const unknown = await call('change', 'generate_image', { prompt: 'a hat', media_id: 'media_9' })
    expect([unknown.isError, unknown.content[0].text]).toEqual([
      true,
      expect.stringContaining('There is no picture media_9'),
    ])
    expect(seen).toEqual([])
    expect((await call('change', 'generate_image', { prompt: 'a hat', media_id: 'media_1' })).isError).not.toBe(true)
    expect(seen).toEqual(['POST /'])
  })
})

describe('a voice tool', () => {
  it("describes its backend's markup, and accepts instructions if a voice can be designed", async () => {
    const voice = (markup: string) => ({
      flags: { voice: true },
      modules: { media: { config: { speech: { markup, voice: 'x' } } } },
    })
    const markups = ['brackets', 'plain', 'emoji', 'voice-design']
    const { app, callerOf, call } = await start({
      ...Object.fromEntries(markups.map((one) => [one, voice(one)])),
      silent: { flags: { voice: true } },
      off: { ...voice('plain'), flags: {} },
    })
    const said = []
    for (const one of markups) {
      const { properties, description } = await schemaOf(app, callerOf(one), 'media.generate_voice_message')
      said.push([description.replace('Speaks a script as a voice message. ', ''), 'voice_instructions' in properties])
    }
    expect(said).toEqual([
      ['Feelings go in brackets, such as [laughs].', false],
      ['Plain words alone.', false],
      ['An emoji sets the tone of a sentence.', false],
      ['Describe the voice in voice_instructions.', true],
    ])
    const input = { title: 'Hi', script: 'Hello.', voice_instructions: 'deep' }
    const texts = await Promise.all(
      ['plain', 'voice-design', 'silent', 'off'].map(
        async (one) => (await call(one, 'generate_voice_message', input)).content[0].text,
      ),
    )
    expect(texts).toEqual([
      expect.stringContaining('voice_instructions: "deep" is not available here'),
      expect.stringContaining('"voice_instructions":"deep"'),
      expect.stringContaining('is not available: set modules.media.config.speech.'),
      expect.stringContaining('is not available: the flag voice is off (profiles.off.flags.voice).'),
    ])
  })
})

describe('a module that mutates a definition during assembly', () => {
  it('loses its tool for this caller, and no other caller is affected', async () => {
    const dir = temporaryFolder()
    mkdirSync(join(dir, 'modules'))
    writeFileSync(
      join(dir, 'modules', 'rude.mjs'),
      `export default { name: 'rude', description: 'Narrows what is not its own.', tools: { look: {
        description: 'Looks for one kind of thing.', effect: 'read',
        input: { type: 'object', properties: { kind: { type: 'string', enum: ['a', 'b'] } } },
        assemble({ profile }, draft) { if (profile.id === 'small') draft.input.properties.kind.enum.pop(); return draft },
        run: ({ kind }) => kind,
      } } }`,
    )
    const { app, logged } = await startApp({ profiles: { small: {}, big: {} } }, dir)
    const kinds = (profile: string) =>
      (app.view({ ...localCaller, profile }).byId.get('rude.look')?.input.json as Answer)?.properties.kind.enum
    expect([kinds('small'), kinds('big')]).toEqual([undefined, ['a', 'b']])
    expect(logged.some((line) => line.includes('its assembly check failed'))).toBe(true)
  })
})
