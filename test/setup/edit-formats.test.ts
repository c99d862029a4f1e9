import { describe, expect, it } from 'vitest'
import { editToml } from '../../src/setup/edit-toml.ts'
import { editYaml } from '../../src/setup/edit-yaml.ts'

const start = { command: '/usr/bin/node', args: ['main.js', 'serve'] }

describe('editToml', () => {
  const text = `# mine
model = "gpt-5"   # a comment

[mcp_servers.github]
command = "npx"
args = [
  "-y",
  "server",
]
[mcp_servers.github.env]
TOKEN = "x"

[mcp_servers."with space"]
command = "a"

[tui]
theme = "dark"
`

  it('adds a table at the end, and removes tables with the tables below them', () => {
    expect(
      editToml(text, [
        { path: ['mcp_servers', 'github'], value: undefined },
        { path: ['mcp_servers', 'with space'], value: undefined },
        { path: ['mcp_servers', 'pegboard'], value: start },
      ]),
    ).toBe(`# mine
model = "gpt-5"   # a comment

[tui]
theme = "dark"

[mcp_servers.pegboard]
command = "/usr/bin/node"
args = [ "main.js", "serve" ]
`)
  })

  it('starts a file, and keeps Windows line ends', () => {
    expect(editToml('', [{ path: ['mcp_servers', 'a'], value: { command: 'a' } }])).toBe(
      '[mcp_servers.a]\ncommand = "a"\n',
    )
    expect(editToml('a = 1\r\n', [{ path: ['mcp_servers', 'a'], value: { command: 'a' } }])).toBe(
      'a = 1\r\n\r\n[mcp_servers.a]\r\ncommand = "a"\r\n',
    )
  })

  it.each([
    ['mcp_servers = { github = { command = "a" } }', 'an inline table'],
    ['[mcp_servers]\ngithub.command = "a"', 'a dotted key'],
    ['x = """\n[mcp_servers.github]\n"""\n', 'a header inside a text'],
  ])('refuses what has no lines of its own: %s', (given) => {
    expect(() => editToml(given, [{ path: ['mcp_servers', 'github'], value: undefined }])).toThrow(
      expect.objectContaining({ code: 'E_EDIT_SYNTAX' }),
    )
  })

  it('reports where a file is broken, without its content', () => {
    expect(() => editToml('a = 1\nb = "s3cret', [])).not.toThrow()
    expect(() => editToml('a = 1\nb = "s3cret', [{ path: ['a'], value: undefined }])).toThrow(
      expect.objectContaining({
        message: expect.stringMatching(/^The file is not valid TOML at line 2, column \d+: [^\n]+$/),
      }),
    )
  })
})

describe('editYaml', () => {
  const text = `# mine
GOOSE_PROVIDER: openai
extensions:
  developer:   # built in
    enabled: true
    type: builtin

  # my own
  github:
    cmd: npx
    args:
    - -y
    - server
    envs: {A: "b"}

# the end
GOOSE_MODEL: gpt-5
`

  it('adds and removes entries, and keeps comments and order', () => {
    expect(
      editYaml(text, [
        { path: ['extensions', 'github'], value: undefined },
        { path: ['extensions', 'pegboard'], value: { type: 'stdio', args: ['a: b', '#c'], envs: {} } },
      ]),
    ).toBe(`# mine
GOOSE_PROVIDER: openai
extensions:
  developer:   # built in
    enabled: true
    type: builtin

  # my own
  pegboard:
    type: stdio
    args:
      - "a: b"
      - "#c"
    envs: {}

# the end
GOOSE_MODEL: gpt-5
`)
  })

  it.each([
    ['', 'extensions:\n  a:\n    b: 1\n'],
    ['x: 1', 'x: 1\nextensions:\n  a:\n    b: 1\n'],
    ['extensions: {}\r\nx: 1\r\n', 'extensions:\r\n  a:\r\n    b: 1\r\nx: 1\r\n'],
    ['extensions:\nx: 1\n', 'extensions:\n  a:\n    b: 1\nx: 1\n'],
    ['extensions:\n    c: 1\n', 'extensions:\n    c: 1\n    a:\n      b: 1\n'],
  ])('adds the first entry to %j', (given, expected) => {
    expect(editYaml(given, [{ path: ['extensions', 'a'], value: { b: 1 } }])).toBe(expected)
  })

  it('refuses a section in one line, and broken files', () => {
    for (const given of ['extensions: {a: {b: 1}, c: 2}\n', 'extensions: [a]\n', 'a: [\n'])
      expect(() => editYaml(given, [{ path: ['extensions', 'c'], value: undefined }]), given).toThrow(
        expect.objectContaining({ code: 'E_EDIT_SYNTAX' }),
      )
  })
})
