import { type CallContext, type ToolDef, type ToolError, z } from 'pegboard'
import { notFound } from '../_errors.ts'
import { lazySchema } from '../_lazy-schema.ts'
import { available, oneServer, paged, server, serversOf } from './servers.ts'

const List = lazySchema(() =>
  z.object({
    server_id: oneServer,
    filter: z.string().max(200).default('').describe('Only entries with this text in their name or description.'),
    limit: z.int().min(1).max(500).default(50).describe('Maximum number of entries.'),
    offset: z.int().min(0).default(0).describe('Number of entries to skip.'),
  }),
)

export const list_tools: ToolDef<unknown, typeof List> = {
  title: 'List tools of servers',
  description:
    'List the tools of MCP servers that you can call, with the names to call them by. To find a tool for a purpose, search: that covers all tools and their meaning.',
  aliases: ['server tools', 'tools of a server', "outils d'un serveur", 'Werkzeuge eines Servers'],
  tags: ['mcp', 'tools'],
  input: List,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: { server_id: 'github' } }],
  available,
  run({ server_id, ...pageOptions }, ctx) {
    const tools = serversOf(ctx).listTools(server_id)
    const { shown, ...counts } = paged(tools, pageOptions, ({ id, description }) => `${id} ${description}`)
    return {
      tools: shown.map(({ server, name, description, effect }) => ({
        server,
        name,
        description: shorten(description),
        effect,
      })),
      ...counts,
    }
  },
}

/** The first sentence or line of a description. */
const shorten = (text: string): string => {
  const [first = ''] = text.trim().split(/\n|(?<=[.!?])\s/, 1)
  return first.length > 200 ? `${first.slice(0, 199)}…` : first
}

const Call = lazySchema(() =>
  z.object({
    server,
    tool: z.string().min(1).max(200).describe("The server's own name for the tool, or the name to call it by."),
    arguments: z.record(z.string(), z.unknown()).default({}).describe("Arguments for the tool's own schema."),
  }),
)

export const call_tool: ToolDef<unknown, typeof Call> = {
  title: 'Call a tool of a server',
  description:
    'Call a tool of an MCP server by server and tool name, with the same permissions and result as a direct call. If the tool is listed or was found, call it directly.',
  aliases: ['call server tool', 'invoke tool', "appeler un outil d'un serveur", 'Werkzeug eines Servers aufrufen'],
  tags: ['mcp', 'tools'],
  input: Call,
  effect: 'destructive',
  openWorld: true,
  // The inner call has been checked with its own server's settings.
  opaque: ['*'],
  allowRepeat: true,
  sideEffects: ['those of the tool'],
  examples: [{ input: { server: 'github', tool: 'create_issue', arguments: { title: 'It breaks' } } }],
  available,
  async run({ server, tool, arguments: given }, ctx) {
    const status =
      serversOf(ctx)
        .list()
        .find(({ id }) => id === server) ??
      serversOf(ctx)
        .list()
        .find(({ category }) => category === server)
    if (!status) throw noServer(server, ctx)
    const { category } = status
    const { registry } = ctx.services
    const qualified = `${category}.${tool}`
    const qualifiedTool = registry?.get(qualified)
    const match = [qualifiedTool, registry?.get(tool)].find((candidate) => candidate?.category === category)
    // A similar name may belong to another server. An unknown name is refused as in a call.
    if (!match && qualifiedTool) throw notFound(`${server} has no tool ${tool}.`, 'list_tools lists its tools.')
    return await ctx.call(match?.name ?? qualified, given)
  },
}

const noServer = (server: string, ctx: CallContext): ToolError =>
  notFound(
    `There is no server "${server}".`,
    `Servers: ${serversOf(ctx)
      .list()
      .map(({ id }) => id)
      .slice(0, 50)
      .join(', ')}.`,
  )

type Json = Readonly<Record<string, unknown>>
const textIn = (entry: Json, key: string): string | undefined =>
  typeof entry[key] === 'string' ? (entry[key] as string) : undefined
const withoutUndefined = (fields: Json): Json =>
  Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))

export const list_resources: ToolDef<unknown, typeof List> = {
  title: 'List resources of servers',
  description:
    'List the resources of MCP servers, and their templates. read_resource reads one. A server that was never connected has none yet.',
  aliases: ['server resources', "ressources d'un serveur", 'Ressourcen eines Servers'],
  tags: ['mcp', 'resources'],
  input: List,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: { server_id: 'docs' } }],
  available,
  run({ server_id, ...pageOptions }, ctx) {
    const resources = serversOf(ctx).listResources(server_id)
    const { shown, ...counts } = paged(
      resources,
      pageOptions,
      ({ uri, entry }) => `${uri} ${entry['name']} ${entry['description']}`,
    )
    return {
      resources: shown.map(({ server, uri, isTemplate, entry }) =>
        withoutUndefined({
          server,
          [isTemplate ? 'uri_template' : 'uri']: uri,
          name: textIn(entry, 'title') ?? textIn(entry, 'name'),
          description: textIn(entry, 'description'),
          mime_type: textIn(entry, 'mimeType'),
        }),
      ),
      ...counts,
    }
  },
}

const Read = lazySchema(() =>
  z.object({
    server,
    uri: z.string().min(1).max(4_000).describe('From list_resources, or from one of its templates.'),
  }),
)

export const read_resource: ToolDef<unknown, typeof Read> = {
  title: 'Read a resource of a server',
  description:
    'Read a resource of an MCP server: text as text, anything else as an image, sound or file. For web pages and files of this machine use the tools for those.',
  aliases: ['get resource', 'lire une ressource', 'Ressource lesen'],
  tags: ['mcp', 'resources'],
  input: Read,
  effect: 'read',
  openWorld: true,
  opaque: ['*'],
  sideEffects: ['can start a program that the configuration names'],
  examples: [{ input: { server: 'docs', uri: 'docs://start' } }],
  available,
  async run({ server, uri }, ctx) {
    const { contents } = await serversOf(ctx).readResource(server, uri)
    const parts = (Array.isArray(contents) ? contents : []) as readonly Json[]
    return {
      contents: parts.map((part) => {
        const about = { uri: part['uri'], mime_type: textIn(part, 'mimeType') }
        const blob = textIn(part, 'blob')
        if (blob === undefined) return withoutUndefined({ ...about, text: textIn(part, 'text') ?? '' })
        const data = Buffer.from(blob, 'base64')
        const filename = nameOf(String(part['uri'] ?? uri))
        ctx.sendFile({ data, filename, mimetype: about.mime_type ?? 'application/octet-stream' })
        return withoutUndefined({ ...about, bytes: data.length, file: filename })
      }),
    }
  },
}

const nameOf = (uri: string): string =>
  uri
    .split(/[?#]/, 1)[0]
    ?.split('/')
    .filter(Boolean)
    .at(-1)
    ?.replaceAll(/[^\w.-]+/g, '_')
    .slice(-80) || 'resource'

export const list_prompts: ToolDef<unknown, typeof List> = {
  title: 'List prompts of servers',
  description: 'List the prompts of MCP servers, with their arguments. get_prompt fills one in.',
  aliases: ['server prompts', "prompts d'un serveur", 'Vorlagen eines Servers'],
  tags: ['mcp', 'prompts'],
  input: List,
  effect: 'read',
  sideEffects: ['none'],
  examples: [{ input: {} }],
  available,
  run({ server_id, ...pageOptions }, ctx) {
    const prompts = serversOf(ctx).listPrompts(server_id)
    const { shown, ...counts } = paged(prompts, pageOptions, ({ name, entry }) => `${name} ${entry['description']}`)
    return {
      prompts: shown.map(({ server, name, entry }) =>
        withoutUndefined({ server, name, description: textIn(entry, 'description'), arguments: entry['arguments'] }),
      ),
      ...counts,
    }
  },
}

const Prompt = lazySchema(() =>
  z.object({
    server,
    name: z.string().min(1).max(200).describe('From list_prompts.'),
    arguments: z.record(z.string(), z.string()).default({}).describe('Arguments of the prompt, all strings.'),
  }),
)

export const get_prompt: ToolDef<unknown, typeof Prompt> = {
  title: 'Get a prompt of a server',
  description: 'Get the messages of a prompt of an MCP server with its arguments filled in, for you to follow.',
  aliases: ['fill prompt', 'obtenir un prompt', 'Vorlage ausfüllen'],
  tags: ['mcp', 'prompts'],
  input: Prompt,
  effect: 'read',
  openWorld: true,
  opaque: ['*'],
  sideEffects: ['may start a program that the configuration names'],
  examples: [{ input: { server: 'docs', name: 'review', arguments: { topic: 'errors' } } }],
  available,
  async run({ server, name, arguments: given }, ctx) {
    const { description, messages } = await serversOf(ctx).getPrompt(server, name, given)
    return withoutUndefined({ description, messages })
  },
}
