import { expect, it } from 'vitest'
import { profileForFolder } from '../../src/config/folder-profiles.ts'
import { readConfig } from '../../src/config/load-config.ts'

const machine = { env: {}, cwd: '/', home: '/home/me' }
const profiles = {
  work: { folders: ['~/projects/*'] },
  shop: { folders: ['~/projects/shop', '/srv/*-shop'] },
  beside: { folders: ['./beside/x*y*z'] },
}
const { config } = readConfig(JSON.stringify({ profiles }), '/home/me/config/mcp.config.json', machine)

it.runIf(process.platform !== 'win32').each([
  ['/home/me/projects/other', 'work'],
  ['/home/me/projects/other/deep/er', 'work'],
  ['/home/me/projects/shop', 'shop'],
  ['/home/me/projects/shop/src', 'shop'],
  ['/home/me/projects/shopping', 'work'],
  ['/srv/my-shop/', 'shop'],
  ['/home/me/config/beside/x1y2z', 'beside'],
  ['/home/me/config/beside/xyz', 'beside'],
  ['/home/me/config/beside/xz', undefined],
  ['/home/me/projects', undefined],
  ['/home/me/projects/', undefined],
  ['/home/me', undefined],
  ['/srv/shop', undefined],
  ['/home/you/work/other', undefined],
  ['/', undefined],
])('in %s the profile is %s', (folder, profile) => {
  expect(profileForFolder(config, folder, machine)).toBe(profile)
})
