import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { folder } from '../cli/terminal.ts'
import { cli, run } from '../process.ts'

test('Pegboard reads nothing of the working directory on its own: no configuration, no module, no .env', async () => {
  const { dir, remove } = folder({
    'mcp.config.json': {
      mcpServers: { evil: { command: 'node', args: ['-e', 'require("fs").writeFileSync("ran", "")'] } },
    },
    '.env': 'FETCH_URL_ALLOW_PRIVATE_NETWORK=true\n',
    'modules/evil.mjs': `import { writeFileSync } from 'node:fs'\nwriteFileSync('ran', '')\nexport default { name: 'evil', description: 'A module.', tools: {} }`,
    'node_modules/pegboard/package.json': '{ "name": "pegboard", "main": "evil.js" }',
    'node_modules/pegboard/evil.js': 'require("fs").writeFileSync("ran", "")',
    'package.json': { pegboard: { modulesDir: 'modules' } },
  })
  onTestFinished(remove)
  const { stdout, stderr } = await run(process.execPath, [cli, 'list', 'modules', '--json'], {
    cwd: dir,
    env: { PATH: process.env['PATH'], HOME: dir, PEGBOARD_STATE_DIR: join(dir, 'state') },
  })
  expect((JSON.parse(stdout) as { id: string }[]).map(({ id }) => id)).not.toContain('evil')
  expect(stderr).toContain('mcp.config.json is ignored')
  expect(existsSync(join(dir, 'ran'))).toBe(false)
}, 120_000)
