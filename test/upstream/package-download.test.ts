import { describe, expect, it } from 'vitest'
import { isInstalling } from '../../src/upstream/package-download.ts'

describe('output of a program that downloads a server', () => {
  it.each([
    '> server@1.2.0 start',
    '> node dist/index.js --stdio',
    'added 12 packages, and audited 13 packages in 2s',
    'up to date, audited 13 packages in 1s',
    'found 0 vulnerabilities',
    '3 packages are looking for funding',
    '  run `npm fund` for details',
    'Need to install the following packages:',
    'Ok to proceed? (y) ',
    'yarn run v1.22.19',
    '$ node index.js',
    '[1/4] Resolving packages...',
    '➤ YN0000: ┌ Resolution step',
    'Progress: resolved 10, reused 9, downloaded 1, added 0',
    'Packages: +12',
    'Collecting mcp-server-fetch',
    '  Downloading mcp-1.2.0-py3-none-any.whl (12 kB)',
    'Successfully installed mcp-1.2.0',
    'Resolved 12 packages in 40ms',
    'latest: Pulling from mcp/fetch',
    '9a1ce5e7c4f5: Pulling fs layer',
    '9a1ce5e7c4f5: Pull complete',
    'Digest: sha256:0a1b2c',
    'Status: Downloaded newer image for mcp/fetch:latest',
  ])('is known: %s', (line) => expect(isInstalling(line)).toBe(true))

  it.each([
    'Listening on port 3000',
    'Server running on stdio',
    '{"level":"info"}',
    'Downloads folder: /home/ada/Downloads',
    'Installed tools: 3',
    'Collecting is fun',
    'Starting…',
  ])("is distinguished from a server's log: %s", (line) => expect(isInstalling(line)).toBe(false))
})
