import { describe, expect, it } from 'vitest'
import { createLineReader } from '../../src/core/line-reader.ts'
import { childEnvironment, isMissing, parseEnvFile, spawnPlan } from '../../src/programs/spawn.ts'

describe("a child's environment", () => {
  it('contains what programs need and the entry names, and nothing else', () => {
    const ours = {
      PATH: '/bin',
      HOME: '/home/a',
      LC_CTYPE: 'C',
      TERM: 'x',
      AWS_SECRET_ACCESS_KEY: 's',
      NODE_OPTIONS: '--inspect',
      NODE_EXTRA_CA_CERTS: '/ca',
      SHELL: '() { evil; }',
      USER: undefined,
    }
    expect(childEnvironment(ours, { TOKEN: 't', PATH: '/opt' }, 'linux')).toEqual({
      PATH: '/opt',
      HOME: '/home/a',
      LC_CTYPE: 'C',
      TERM: 'x',
      TOKEN: 't',
    })
  })

  it('has the Windows variables on Windows, in any case', () => {
    expect(
      childEnvironment({ Path: 'C:\\bin', SystemRoot: 'C:\\Windows', HOME: 'x', SECRET: 's' }, {}, 'win32'),
    ).toEqual({
      Path: 'C:\\bin',
      SystemRoot: 'C:\\Windows',
    })
  })

  it('may come from a file', () => {
    expect(parseEnvFile('# no\nA=1\nexport B = "two words"\r\nC=\'x=y\'\nnonsense\n')).toEqual({
      A: '1',
      B: 'two words',
      C: 'x=y',
    })
  })
})

describe('a program', () => {
  it('is missing if it is in no folder of PATH, or not at its path', () => {
    const env = { PATH: '/no-such-folder:/bin' }
    expect(isMissing('sh', env, undefined, 'linux')).toBe(false)
    expect(isMissing('no-such-program', env, undefined, 'linux')).toBe(true)
    expect(isMissing('/bin/sh', {}, undefined, 'linux')).toBe(false)
    expect(isMissing('./sh', env, '/bin', 'linux')).toBe(false)
    expect(isMissing('./sh', env, '/dev', 'linux')).toBe(true)
  })

  it('may be anywhere without PATH, and on Windows', () => {
    expect(isMissing('no-such-program', {}, undefined, 'linux')).toBe(false)
    expect(isMissing('no-such-program', { PATH: '/bin' }, undefined, 'win32')).toBe(false)
  })
})

describe('starting a program', () => {
  it('uses no shell and a separate process group', () => {
    expect(spawnPlan('npx', ['-y', '$(x)'], {}, 'linux')).toEqual({
      file: 'npx',
      args: ['-y', '$(x)'],
      options: { detached: true, shell: false },
    })
  })

  const env = { Path: 'C:\\node;C:\\tools', PATHEXT: '.COM;.EXE;.BAT;.CMD', ComSpec: 'C:\\Windows\\cmd.exe' }

  it('on Windows quotes the arguments of batch files such as npx for cmd.exe', () => {
    const plan = spawnPlan(
      'npx',
      ['-y', 'a b', 'x&calc', '"q"', '100%'],
      env,
      'win32',
      (file) => file === 'C:\\node\\npx.cmd',
    )
    expect(plan).toEqual({
      file: 'C:\\Windows\\cmd.exe',
      args: [
        '/d',
        '/s',
        '/c',
        '"C:\\node\\npx.cmd ^^^"-y^^^" ^^^"a^^^ b^^^" ^^^"x^^^&calc^^^" ^^^"\\^^^"q\\^^^"^^^" ^^^"100^^^%^^^""',
      ],
      options: { windowsHide: true, windowsVerbatimArguments: true, shell: false },
    })
  })

  it('on Windows starts executables directly', () => {
    const plan = spawnPlan('node', ['x&y'], env, 'win32', (file) => file === 'C:\\tools\\node.exe')
    expect(plan).toEqual({ file: 'C:\\tools\\node.exe', args: ['x&y'], options: { windowsHide: true, shell: false } })
    expect(spawnPlan('missing', [], env, 'win32', () => false).file).toBe('missing')
  })
})

describe('lines of a stream', () => {
  const read = (maxBytes: number, ...chunks: string[]) => {
    const lines: string[] = []
    const dropped: string[][] = []
    const push = createLineReader(maxBytes, {
      frame: (line) => lines.push(line.toString()),
      oversize: (head, tail, bytes) => dropped.push([head.toString(), tail.toString(), String(bytes)]),
    })
    for (const chunk of chunks) push(Buffer.from(chunk))
    return { lines, dropped }
  }

  it('are found wherever the stream is cut', () => {
    const text = 'one\ntwo\n\nthree\n'
    for (let cut = 0; cut <= text.length; cut++)
      expect(read(100, text.slice(0, cut), text.slice(cut)).lines).toEqual(['one', 'two', 'three'])
    expect(read(100, ...'ab\ncd\n').lines).toEqual(['ab', 'cd'])
  })

  it('are independent of each other when a handler throws', () => {
    const lines: string[] = []
    const push = createLineReader(100, {
      frame(line) {
        if (line.toString() === 'bad') throw new TypeError('no')
        lines.push(line.toString())
      },
      oversize: () => undefined,
    })
    push(Buffer.from('ba'))
    expect(() => push(Buffer.from('d\ngood\nha'))).toThrow(TypeError)
    push(Buffer.from('lf\n'))
    expect(lines).toEqual(['good', 'half'])
  })

  it('that are too long are dropped except their ends, and the next one is read', () => {
    expect(read(10, 'abcdefgh', 'ijklmn', 'op\nnext\n')).toEqual({
      lines: ['next'],
      dropped: [['abcdefgh', 'abcdefghijklmnop', '16']],
    })
  })
})
