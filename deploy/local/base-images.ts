// The images that every cluster needs and that no local registry has: built from programs of this machine.
import type { DebianTools } from './debian.ts';
import { fileEntry, type Image, type LayerEntry } from './images.ts';
import { run } from './run.ts';
import { toolPath } from './tools.ts';

/** The image of pod sandboxes, as in containerd's configuration. */
export const pauseImage = 'docker.io/windlass/pause:1';

/** The versions of busybox that the registry of every instance has. */
export const busyboxVersions = ['1.35', '1.36'] as const;

/** The sandbox image, and busybox in two versions that differ in their digest. */
export async function baseImages(debian: DebianTools): Promise<Image[]> {
  return [
    {
      reference: 'windlass/pause:1',
      layers: [[fileEntry('pause', toolPath('pause'))]],
      config: { Entrypoint: ['/pause'], User: '65535:65535' },
    },
    ...(await Promise.all(busyboxVersions.map((version) => busyboxImage(debian, version)))),
  ];
}

/** busybox with any version, which is written to `/etc/busybox-version` and makes the digest unique. */
export async function busyboxImage(debian: DebianTools, version: string): Promise<Image> {
  const applets = (await run(debian.busybox, ['--list']))
    .split('\n')
    .filter((name) => name !== '' && name !== 'busybox');
  return {
    reference: `library/busybox:${version}`,
    layers: [
      [
        fileEntry('bin/busybox', debian.busybox),
        ...applets.map((name): LayerEntry => ({ kind: 'link', path: `bin/${name}`, target: 'busybox' })),
        ...['dev', 'proc', 'sys', 'root', 'var'].map((path): LayerEntry => ({ kind: 'folder', path })),
        { kind: 'folder', path: 'tmp', mode: 0o1777 },
        { kind: 'file', path: 'etc/passwd', content: Buffer.from('root:x:0:0:root:/root:/bin/sh\n') },
        { kind: 'file', path: 'etc/group', content: Buffer.from('root:x:0:\n') },
        { kind: 'file', path: 'etc/busybox-version', content: Buffer.from(`${version}\n`) },
      ],
    ],
    config: { Cmd: ['sh'], Env: ['PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'] },
  };
}
