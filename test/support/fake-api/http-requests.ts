import type { IncomingMessage } from 'node:http';
import type { DeleteOptions, PatchType, Selection } from '../../../kube/client.ts';
import { discover } from './discovery.ts';
import { Refused, statusObject } from './refusals.ts';
import { createObject, deleteObject, getObject, patchObject } from './requests.ts';
import type { ObjectStore } from './store.ts';

/** One request as the server received it. */
export interface SeenRequest {
  readonly method: string;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly headers: IncomingMessage['headers'];
  readonly body: unknown;
  /** Of the TCP connection: the same number is the same connection. */
  readonly connection: number;
}

interface Answer {
  readonly status: number;
  readonly body: object;
}

const patchTypes: Readonly<Record<string, PatchType>> = {
  'application/merge-patch+json': 'merge',
  'application/json-patch+json': 'json',
  'application/strategic-merge-patch+json': 'strategic',
  'application/apply-patch+yaml': 'apply',
};

/** What the server answers when nothing goes wrong. */
export function answerTo(request: SeenRequest, store: ObjectStore): Answer {
  try {
    const body = asked(request, store);
    return { status: request.method === 'POST' ? 201 : 200, body };
  } catch (error) {
    if (error instanceof Refused) return { status: error.status, body: error.body };
    throw error;
  }
}

function asked(request: SeenRequest, store: ObjectStore): object {
  const { method, path, query, headers, body } = request;
  const { collection, namespace, name, subresource } = parsePath(path);
  if (collection === '') return discover(method, path);
  const dryRun = query.get('dryRun') === 'All';
  if (name === undefined) {
    if (method === 'GET') return listOf(request, store);
    if (method === 'POST') return createObject(store, collection, body as object, { dryRun, namespace });
    throw notAllowed();
  }
  const place = { collection, namespace, name };
  switch (method) {
    case 'GET':
      return getObject(store, place);
    case 'PATCH': {
      const type = patchTypes[headers['content-type'] ?? ''];
      if (type === undefined) throw new Refused(415, 'UnsupportedMediaType', 'the body was in an unknown format');
      return patchObject(store, place, type, body, { dryRun, subresource });
    }
    case 'DELETE':
      deleteObject(store, place, deleteOptionsOf(body));
      return statusObject(200, '', '');
    default:
      throw notAllowed();
  }
}

function deleteOptionsOf(body: unknown): DeleteOptions {
  const { dryRun = [], ...options } = (body ?? {}) as Omit<DeleteOptions, 'dryRun'> & { readonly dryRun?: string[] };
  return { ...options, dryRun: dryRun.includes('All') };
}

function notAllowed(): Refused {
  const message = 'the server does not allow this method on the requested resource';
  return new Refused(405, 'MethodNotAllowed', message);
}

function listOf(request: SeenRequest, store: ObjectStore): object {
  const { query, headers, path } = request;
  const { collection, namespace } = parsePath(path);
  const { items, ...metadata } = store.list(collection, {
    ...selectionOf(request, namespace),
    limit: Number(query.get('limit') ?? 0),
    continue: query.get('continue') ?? undefined,
  });
  const isMetadataOnly = headers.accept?.includes('as=PartialObjectMetadataList') ?? false;
  return {
    kind: 'ThingList',
    apiVersion: 'v1',
    metadata,
    items: items.map(({ kind: _, apiVersion: __, ...item }) => (isMetadataOnly ? { metadata: item.metadata } : item)),
  };
}

/** What a list or a watch is to show. */
export function selectionOf({ query }: SeenRequest, namespace: string | undefined): Selection {
  return {
    namespace,
    labelSelector: query.get('labelSelector') ?? undefined,
    fieldSelector: query.get('fieldSelector') ?? undefined,
  };
}

export interface ParsedPath {
  /** Empty: the path of a group. */
  readonly collection: string;
  readonly namespace: string | undefined;
  readonly name: string | undefined;
  readonly subresource: string | undefined;
}

/** `/apis/g/v/namespaces/ns/things/name/sub` is `sub` of object `name` of collection `/apis/g/v/things` in `ns`. */
export function parsePath(path: string): ParsedPath {
  const parts = path.split('/').slice(1).map(decodeURIComponent);
  const root = parts.splice(0, parts[0] === 'api' ? 2 : 3).join('/');
  const namespace = parts[0] === 'namespaces' && parts.length > 2 ? parts.splice(0, 2)[1] : undefined;
  const [plural, name, subresource] = parts;
  return { collection: plural === undefined ? '' : `/${root}/${plural}`, namespace, name, subresource };
}
