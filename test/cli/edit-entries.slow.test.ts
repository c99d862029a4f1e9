import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/client'
import { expect, it, onTestFinished } from 'vitest'
import { run } from '../../src/cli/run-command.ts'
import { StreamTransport } from '../client.ts'
import { LISTED } from '../listed-server.ts'
import { folder, pegboard, terminal } from './terminal.ts'

/** A folder with one server, `box`, which lists these tools. */
function desk(...names: readonly string[]) {
  const at = folder({
    'tools.json': { tools: names.map((name) => ({ name, description: `Does ${name}.` })) },
    'mcp.config.json': `{
  "mcpServers": {
    // All boxes.
    "box": { "command": ${JSON.stringify(process.execPath)}, "args": [${JSON.stringify(LISTED)}, "tools.json"], "start": "eager" }
  }
}
`,
  })
  onTestFinished(() => at.remove())
  return {
    dir: at.dir,
    run: (...argv: string[]) => pegboard(at.dir, ...argv, '--config', 'mcp.config.json'),
    text: () => readFileSync(join(at.dir, 'mcp.config.json'), 'utf8'),
  }
}

it('a running Pegboard applies enable, disable and remove', async () => {
  const { dir, run: pegboard, text } = desk('read_box', 'delete_box', 'delete_all')
  const { io, input, output } = terminal(dir, false)
  const served = run(['serve', '--config', 'mcp.config.json'], io)
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(new StreamTransport(output, input) as never)
  const boxes = async (): Promise<string[]> =>
    (await client.listTools()).tools.map(({ name }) => name).filter((name) => name.startsWith('box__'))
  await expect.poll(boxes).toEqual(['box__read_box', 'box__delete_box', 'box__delete_all'])
  // The other commands know the tools of a server once the running Pegboard has stored them.
  await expect.poll(() => existsSync(join(dir, '.state', 'manifests'))).toBe(true)

  const first = await pegboard('disable', 'box.delete_*')
  expect(first.code).toBe(0)
  expect(first.out).toBe('Disabled tool mcp_box.delete_* (2 tools: mcp_box.delete_box, mcp_box.delete_all).\n')
  expect(first.err).toMatch(/^A running Pegboard applies it within a second\. To undo: .*undo \S+\n$/)
  await expect.poll(boxes).toEqual(['box__read_box'])
  const refused = await client.callTool({ name: 'box__delete_box', arguments: {} })
  expect(refused.structuredContent).toMatchObject({
    error: { code: 'E_TOOL_DISABLED', message: 'mcp_box.delete_box tool is disabled' },
  })

  expect((await pegboard('enable', 'box.delete_box')).out).toBe('Enabled tool mcp_box.delete_box.\n')
  await expect.poll(boxes).toEqual(['box__read_box', 'box__delete_box'])

  expect((await pegboard('remove', 'box.read_box')).out).toBe('Removed tool mcp_box.read_box.\n')
  await expect.poll(boxes).toEqual(['box__delete_box'])

  expect((await pegboard('disable', 'box')).out).toBe('Disabled server box.\n')
  await expect.poll(boxes).toEqual([])
  expect((await pegboard('enable', 'mcp_box')).out).toBe('Enabled server box.\n')
  await expect.poll(boxes).toEqual(['box__delete_box'])

  expect((await pegboard('remove', 'box')).out).toBe('Removed server box.\n')
  await expect.poll(boxes).toEqual([])
  expect(JSON.parse(text().replace(/\/\/.*/, ''))).toEqual({ mcpServers: {}, tools: {} })
  await client.close()
  expect(await served).toBe(0)
})

it('an unknown name changes nothing, and says what was probably meant', async () => {
  const { run, text } = desk('read_box')
  const before = text()
  await run('list', 'servers')
  const said = async (...argv: string[]) => {
    const { code, err } = await run(...argv)
    return [code, err]
  }
  expect(await said('disable', 'bux')).toEqual([
    1,
    'pegboard: E_NOT_FOUND: There is no server, API or module "bux". Did you mean "box"?\n',
  ])
  expect(await said('disable', 'box.read_bax')).toEqual([
    1,
    'pegboard: E_NOT_FOUND: No tool matches "mcp_box.read_bax". Did you mean "mcp_box.read_box"?\n',
  ])
  expect(await said('remove', 'web')).toEqual([
    1,
    'pegboard: E_VALIDATION: web cannot be removed, because it is no entry of the file. To turn it off: pegboard --config mcp.config.json disable web\n',
  ])
  expect((await said('enable'))[0]).toBe(2)
  expect(text()).toBe(before)
  expect((await run('enable', 'box')).out).toBe('box is enabled already.\n')
  expect(text()).toBe(before)
})

it('a module that has the name of a server is disabled and enabled by the name that list shows', async () => {
  const at = folder({
    'tools.json': { tools: [{ name: 'rm', description: 'Deletes a file.' }] },
    'mcp.config.json': {
      mcpServers: { filesystem: { command: process.execPath, args: [LISTED, 'tools.json'] } },
      modules: { filesystem: { config: { roots: ['.'] } } },
    },
  })
  onTestFinished(() => at.remove())
  const run = async (...argv: string[]) => {
    const { code, out, err } = await pegboard(at.dir, ...argv, '--config', 'mcp.config.json')
    return code === 0 ? out : err
  }
  const listed = async (): Promise<string[]> =>
    (JSON.parse(await run('list', '--json')) as { name: string }[])
      .map(({ name }) => name)
      .filter((name) => name.endsWith('.rm') || name.endsWith('filesystem.read'))
  expect(await listed()).toEqual(['mcp_filesystem.rm', 'pegboard_filesystem.read', 'pegboard_filesystem.rm'])

  expect(await run('disable', 'pegboard_filesystem.rm')).toBe('Disabled tool pegboard_filesystem.rm.\n')
  expect(await listed()).toEqual(['mcp_filesystem.rm', 'pegboard_filesystem.read'])
  expect(await run('enable', 'pegboard.filesystem.rm')).toBe('Enabled tool pegboard_filesystem.rm.\n')
  expect(await listed()).toEqual(['mcp_filesystem.rm', 'pegboard_filesystem.read', 'pegboard_filesystem.rm'])

  expect(await run('remove', 'pegboard_filesystem.rm')).toBe('Removed tool pegboard_filesystem.rm.\n')
  expect(await listed()).toEqual(['mcp_filesystem.rm', 'pegboard_filesystem.read'])
  expect(await run('enable', 'pegboard_filesystem.rm')).toBe('Enabled tool pegboard_filesystem.rm.\n')
  expect(await listed()).toEqual(['mcp_filesystem.rm', 'pegboard_filesystem.read', 'pegboard_filesystem.rm'])

  expect(await run('disable', 'pegboard_filesystem')).toBe('Disabled module filesystem.\n')
  expect(await listed()).toEqual(['mcp_filesystem.rm'])
  expect(await run('enable', 'pegboard_filesystem')).toBe('Enabled module filesystem.\n')
  expect(await listed()).toEqual(['mcp_filesystem.rm', 'pegboard_filesystem.read', 'pegboard_filesystem.rm'])
})

it('lists tools with similar names first, and says how many more there are', async () => {
  const names = Array.from({ length: 12 }, (_, index) => `read_${index + 1}`)
  const { run } = desk(...names, 'remove_file', 'copy_file')
  await run('list', 'servers')
  expect((await run('disable', 'box.delete_file')).err).toBe(
    'pegboard: E_NOT_FOUND: No tool matches "mcp_box.delete_file". Tools: mcp_box.remove_file, mcp_box.copy_file, mcp_box.read_1, mcp_box.read_2, mcp_box.read_3, mcp_box.read_4, mcp_box.read_5, mcp_box.read_6, mcp_box.read_7, mcp_box.read_8 and 4 more.\n',
  )
})

it('prints what it changed as JSON', async () => {
  const { run } = desk('read_box', 'delete_box')
  await run('list', 'servers')
  const { out } = await run('disable', 'box.delete_*', 'web', '--json')
  expect(JSON.parse(out)).toEqual({
    entries: [
      { kind: 'tool', name: 'mcp_box.delete_*', changed: true, tools: ['mcp_box.delete_box'] },
      { kind: 'module', name: 'web', changed: true },
    ],
    undo: expect.stringMatching(/^\d{8}T\d{6}Z-[\da-f]{8}$/),
  })
})
