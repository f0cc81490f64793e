#!/usr/bin/env python3
"""Numerical checks of every formula in docs/maths.md.

Hand-written forward and backward formulas (numpy, float64) are compared with
naive references differentiated by torch autograd (float64).  Section numbers in
the output refer to docs/maths.md.  Needs numpy and torch (CPU, >= 1.13).

Usage: python3 verify_maths.py          exit status 0 when every check passes
"""
import math
import sys

import numpy as np
import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
RNG = np.random.default_rng(20260)
TOL = 1e-10
FAILED = []


# ----------------------------------------------------------------- reporting
def rel(a, b):
    """max |a-b| / max |b| (b is the reference)."""
    a = a.detach().numpy() if isinstance(a, torch.Tensor) else np.asarray(a)
    b = b.detach().numpy() if isinstance(b, torch.Tensor) else np.asarray(b)
    assert a.shape == b.shape, (a.shape, b.shape)
    return float(np.max(np.abs(a - b)) / max(np.max(np.abs(b)), 1e-300))


def check(name, pairs, tol=TOL):
    """pairs: list of (got, want) or of plain error numbers."""
    err = max(rel(*p) if isinstance(p, tuple) else float(p) for p in pairs)
    ok = np.isfinite(err) and err <= tol
    if not ok:
        FAILED.append(name)
    print(f"{'ok  ' if ok else 'FAIL'} {name:<74s} err {err:.2e} (tol {tol:.0e})")


def info(text):
    print("info " + text)


def randn(*shape, scale=1.0):
    return RNG.standard_normal(shape) * scale


def leaf(x):
    return torch.tensor(np.asarray(x), requires_grad=True)


def grads(out, cot, leaves):
    return torch.autograd.grad(out, leaves, torch.as_tensor(cot))


# --------------------------------------------------------------- elementwise
def sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def silu(x):
    return x * sigmoid(x)


def dsilu(x):
    s = sigmoid(x)
    return s * (1 + x * (1 - s))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


# --------------------------------------------------------------------- norms
def rmsnorm_fwd(x, w, eps):                       # zero-centred: gain is 1 + w
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return x * r * (1 + w)


def rmsnorm_bwd(dy, x, w, eps):
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    xh, dxh = x * r, dy * (1 + w)
    return r * (dxh - xh * (dxh * xh).mean(-1, keepdims=True))


def gated_norm_fwd(x, z, w, eps):                 # plain gain w, gate after norm
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    return w * (x * r) * silu(z)


def gated_norm_bwd(dy, x, z, w, eps):
    r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + eps)
    xh = x * r
    dxh = dy * w * silu(z)
    dz = dy * w * xh * dsilu(z)
    return r * (dxh - xh * (dxh * xh).mean(-1, keepdims=True)), dz


def l2norm_fwd(x, eps=1e-6):
    return x / np.sqrt((x * x).sum(-1, keepdims=True) + eps)


def l2norm_bwd(dy, x, eps=1e-6):
    rho = 1 / np.sqrt((x * x).sum(-1, keepdims=True) + eps)
    y = x * rho
    return rho * (dy - y * (dy * y).sum(-1, keepdims=True))


# ------------------------------------------------- convolution, gates, rotary
def conv_silu_fwd(x, w, cu):
    """x [T,ch], w [ch,kw]; causal, depthwise, history zero at document starts."""
    kw, y = w.shape[1], np.zeros_like(x)
    for s, e in zip(cu[:-1], cu[1:]):
        for t in range(s, e):
            for j in range(kw):
                if t - (kw - 1) + j >= s:
                    y[t] += w[:, j] * x[t - (kw - 1) + j]
    return silu(y), y


def conv_silu_bwd(dout, y, w, cu):
    kw, dy, dx = w.shape[1], dout * dsilu(y), np.zeros_like(dout)
    for s, e in zip(cu[:-1], cu[1:]):
        for t in range(s, e):
            for j in range(kw):
                if t + (kw - 1) - j < e:
                    dx[t] += w[:, j] * dy[t + (kw - 1) - j]
    return dx


def decay_fwd(a, a_log, dt_bias):
    return -np.exp(a_log) * softplus(a + dt_bias)


def decay_bwd(dg, a, a_log, dt_bias):
    return -np.exp(a_log) * sigmoid(a + dt_bias) * dg


def rope_tables(pos, rot, theta):
    inv = theta ** (-np.arange(0, rot, 2) / rot)
    ang = pos[:, None] * inv[None, :]
    return np.cos(ang), np.sin(ang)               # [T, rot/2]


def rope(x, cos, sin, sign=1.0):
    """x [T,H,hd]; sign=-1 applies the inverse rotation (= the backward)."""
    n, y = cos.shape[1], x.copy()
    c, s = cos[:, None, :], sign * sin[:, None, :]
    y[..., :n] = x[..., :n] * c - x[..., n:2 * n] * s
    y[..., n:2 * n] = x[..., n:2 * n] * c + x[..., :n] * s
    return y


# ------------------------------------------------- softmax attention (tiled)
def attn_fwd(q, k, v, cu, scale, tile=16):
    """Online softmax.  q [T,Hq,d], k,v [T,Hk,d] -> o [T,Hq,d], lse [T,Hq]."""
    t_all, hq, d = q.shape
    grp = hq // k.shape[1]
    o, lse = np.zeros_like(q), np.zeros((t_all, hq))
    for s, e in zip(cu[:-1], cu[1:]):
        for h in range(hq):
            for i0 in range(s, e, tile):
                i1 = min(i0 + tile, e)
                m = np.full(i1 - i0, -np.inf)
                den, acc = np.zeros(i1 - i0), np.zeros((i1 - i0, d))
                for j0 in range(s, i1, tile):
                    j1 = min(j0 + tile, i1)
                    z = scale * q[i0:i1, h] @ k[j0:j1, h // grp].T
                    z[np.arange(i0, i1)[:, None] < np.arange(j0, j1)[None, :]] = -np.inf
                    m2 = np.maximum(m, z.max(1))
                    p, c = np.exp(z - m2[:, None]), np.exp(m - m2)
                    den, acc, m = den * c + p.sum(1), acc * c[:, None] + p @ v[j0:j1, h // grp], m2
                o[i0:i1, h], lse[i0:i1, h] = acc / den[:, None], m + np.log(den)
    return o, lse


def attn_bwd(do, q, k, v, lse, delta, cu, scale, tile=16):
    """delta[t,h] = <do, o>; tiles of P are rebuilt from lse."""
    grp = q.shape[1] // k.shape[1]
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    for s, e in zip(cu[:-1], cu[1:]):
        for h in range(q.shape[1]):
            g = h // grp
            for j0 in range(s, e, tile):
                j1 = min(j0 + tile, e)
                for i0 in range(j0, e, tile):
                    i1 = min(i0 + tile, e)
                    z = scale * q[i0:i1, h] @ k[j0:j1, g].T
                    keep = np.arange(i0, i1)[:, None] >= np.arange(j0, j1)[None, :]
                    p = np.where(keep, np.exp(np.where(keep, z - lse[i0:i1, h, None], 0)), 0)
                    ds = p * (do[i0:i1, h] @ v[j0:j1, g].T - delta[i0:i1, h, None])
                    dv[j0:j1, g] += p.T @ do[i0:i1, h]
                    dq[i0:i1, h] += scale * ds @ k[j0:j1, g]
                    dk[j0:j1, g] += scale * ds.T @ q[i0:i1, h]
    return dq, dk, dv


# ------------------------------------------------------------ loss, LoRA, MLP
def cross_entropy(h, w_lm, labels, n_total, rows=7, cols=13):
    """Loss and dL/dh; positions in slabs of `rows`, vocabulary in tiles of `cols`."""
    loss, dh = 0.0, np.zeros_like(h)
    idx = np.flatnonzero(labels >= 0)
    vocab = w_lm.shape[0]
    for i0 in range(0, len(idx), rows):
        pos = idx[i0:i0 + rows]
        x, y = h[pos], labels[pos]
        m, den = np.full(len(pos), -np.inf), np.zeros(len(pos))
        for v0 in range(0, vocab, cols):                     # pass 1: LSE
            z = x @ w_lm[v0:v0 + cols].T
            m2 = np.maximum(m, z.max(1))
            den, m = den * np.exp(m - m2) + np.exp(z - m2[:, None]).sum(1), m2
        lse = m + np.log(den)
        loss += np.sum(lse - (x * w_lm[y]).sum(1)) / n_total
        for v0 in range(0, vocab, cols):                     # pass 2: dZ tile -> dH
            wt = w_lm[v0:v0 + cols]
            dz = np.exp(x @ wt.T - lse[:, None]) / n_total
            hit = (y >= v0) & (y < v0 + wt.shape[0])
            dz[np.flatnonzero(hit), y[hit] - v0] -= 1 / n_total
            dh[pos] += dz @ wt
    return loss, dh


def lora_fwd(x, w, a, b, s):
    return x @ w.T + s * (x @ a.T) @ b.T


def lora_bwd(dy, x, w, a, b, s):
    t = x @ a.T
    dt = s * dy @ b
    return dy @ w + dt @ a, dt.T @ x, s * dy.T @ t           # dx, dA, dB


# ------------------------------------------------ gated delta rule, recurrent
def gdr_recurrent(q, k, v, g, beta, cu, s0=None):
    """torch, differentiable.  q,k [T,Hk,dk] (q already normalised and scaled),
    v [T,Hv,dv], g,beta [T,Hv].  Returns o [T,Hv,dv] and final states per document."""
    hk, hv = k.shape[1], v.shape[1]
    q, k = q.repeat_interleave(hv // hk, 1), k.repeat_interleave(hv // hk, 1)
    outs, finals = [], []
    for n, (b, e) in enumerate(zip(cu[:-1], cu[1:])):
        s = torch.zeros(hv, k.shape[2], v.shape[2]) if s0 is None else s0[n]
        for t in range(b, e):
            s = s * g[t].exp()[:, None, None]
            d = beta[t][:, None] * (v[t] - torch.einsum('hkv,hk->hv', s, k[t]))
            s = s + k[t][:, :, None] * d[:, None, :]
            outs.append(torch.einsum('hkv,hk->hv', s, q[t]))
        finals.append(s)
    return torch.stack(outs), torch.stack(finals)


# -------------------------------------------------- gated delta rule, chunked
def block_unit_lower_inverse(a, blk=16):
    """(I+a)^-1 for strictly lower a: forward substitution inside blk x blk diagonal
    blocks, then block-row merging with matrix products."""
    n = a.shape[0]
    t = np.zeros_like(a)
    starts = list(range(0, n, blk))
    for s in starts:
        e = min(s + blk, n)
        for i in range(s, e):
            t[i, s:i] = -a[i, s:i] @ t[s:i, s:i] if i > s else 0
            t[i, i] = 1
    for bi, s in enumerate(starts):
        e = min(s + blk, n)
        for r in starts[:bi][::-1]:
            acc = sum(a[s:e, m:m + blk] @ t[m:m + blk, r:r + blk] for m in starts if r <= m < s)
            t[s:e, r:r + blk] = -t[s:e, s:e] @ acc
    return t


class Chunk:
    """State-independent quantities of one chunk of one value head."""

    def __init__(self, q, k, v, g, beta):
        n = len(g)
        i, j = np.indices((n, n))
        self.q, self.k, self.v, self.beta = q, k, v, beta
        b = np.cumsum(g)
        gamma = np.where(i >= j, np.exp(np.where(i >= j, b[:, None] - b[None, :], 0)), 0)
        self.strict = i > j
        self.gamma = gamma
        self.kk = k @ k.T
        self.a = np.where(self.strict, beta[:, None] * self.kk * gamma, 0)
        self.t = block_unit_lower_inverse(self.a)
        self.p = (q @ k.T) * gamma                    # lower incl. diagonal
        self.eb = np.exp(b)                           # decay from chunk start
        self.er = np.exp(b[-1] - b)                   # decay to chunk end
        self.el = np.exp(b[-1])

    def forward(self, s):
        ks = self.k @ s
        e = self.v - self.eb[:, None] * ks
        d = self.t @ (self.beta[:, None] * e)
        o = self.eb[:, None] * (self.q @ s) + self.p @ d
        s2 = self.el * s + (self.er[:, None] * self.k).T @ d
        return o, d, e, s2

    def reverse_scan(self, do, ds2):
        """Only what the backward recurrence needs: dR, dE and dS."""
        dd = self.p.T @ do + self.er[:, None] * (self.k @ ds2)
        dr = self.t.T @ dd
        de = self.beta[:, None] * dr
        ds = self.el * ds2 + (self.eb[:, None] * self.q).T @ do - (self.eb[:, None] * self.k).T @ de
        return dr, de, ds

    def local_grads(self, s, d, e, do, ds2, dr, de):
        """Chunk-parallel part: dq, dk, dv, dbeta, dg."""
        n = len(self.beta)
        dpm = np.where(np.tril(np.ones((n, n), bool)), do @ d.T, 0) * self.gamma   # dP * Gamma
        da = np.where(self.strict, -(dr @ d.T), 0)
        m = self.beta[:, None] * self.gamma * da
        dq_inter = self.eb[:, None] * (do @ s.T)
        dq = dq_inter + dpm @ self.k
        dk_e = -self.eb[:, None] * (de @ s.T)
        dk_s = self.er[:, None] * (d @ ds2.T)
        dk = dpm.T @ self.q + m @ self.k + m.T @ self.k + dk_s + dk_e
        dbeta = (dr * e).sum(1) + (da * self.kk * self.gamma).sum(1)
        # gradient of the cumulative log decay b, then reverse cumulative sum
        x = np.where(self.strict, dpm * (self.q @ self.k.T), 0) + da * self.a
        w = (self.k * dk_s).sum(1)
        db = (self.q * dq_inter).sum(1) + x.sum(1) - x.sum(0) - w + (self.k * dk_e).sum(1)
        db[-1] += self.el * (s * ds2).sum() + w.sum()
        dg = np.cumsum(db[::-1])[::-1]
        return dq, dk, de, dbeta, dg


def chunk_table(cu, size):
    """(document, start, end); chunks never cross a document boundary."""
    return [(n, c, min(c + size, e)) for n, (b, e) in enumerate(zip(cu[:-1], cu[1:])) for c in range(b, e, size)]


def pad_rows(x, n):
    return np.concatenate([x, np.zeros((n - len(x),) + x.shape[1:])])


def make_chunk(q, k, v, g, beta, sl, h, grp, size):
    """Tail chunks are padded with zero rows (k=q=v=beta=g=0)."""
    return Chunk(*(pad_rows(x, size) for x in (q[sl, h // grp], k[sl, h // grp], v[sl, h], g[sl, h], beta[sl, h])))


def gdr_chunked(q, k, v, g, beta, cu, size=64, s0=None):
    hv, grp = v.shape[1], v.shape[1] // k.shape[1]
    o, table = np.zeros_like(v), chunk_table(cu, size)
    final = np.zeros((len(cu) - 1, hv, k.shape[2], v.shape[2]))
    states = np.zeros((len(table), hv, k.shape[2], v.shape[2]))
    for h in range(hv):
        for c, (n, b, e) in enumerate(table):
            if b == cu[n]:
                s = np.zeros(states.shape[2:]) if s0 is None else s0[n, h]
            ch = make_chunk(q, k, v, g, beta, slice(b, e), h, grp, size)
            states[c, h] = s
            oc, _, _, s = ch.forward(s)
            o[b:e, h], final[n, h] = oc[:e - b], s
    return o, final, states


def gdr_chunked_bwd(q, k, v, g, beta, cu, states, do, dfinal=None, size=64):
    hv, grp = v.shape[1], v.shape[1] // k.shape[1]
    dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
    dg, dbeta = np.zeros_like(g), np.zeros_like(beta)
    ds0 = np.zeros((len(cu) - 1,) + states.shape[1:])
    table = chunk_table(cu, size)
    for h in range(hv):
        for c in range(len(table) - 1, -1, -1):
            n, b, e = table[c]
            if e == cu[n + 1]:
                ds = np.zeros(states.shape[2:]) if dfinal is None else dfinal[n, h]
            ch = make_chunk(q, k, v, g, beta, slice(b, e), h, grp, size)
            dop, s = pad_rows(do[b:e, h], size), states[c, h]
            _, d, er, _ = ch.forward(s)                     # recompute D, E from saved S
            dr, de, ds_new = ch.reverse_scan(dop, ds)
            gq, gk, gv, gb, gg = ch.local_grads(s, d, er, dop, ds, dr, de)
            m = e - b
            dq[b:e, h // grp] += gq[:m]                     # sum over the group
            dk[b:e, h // grp] += gk[:m]
            dv[b:e, h], dbeta[b:e, h], dg[b:e, h] = gv[:m], gb[:m], gg[:m]
            ds = ds_new
            if b == cu[n]:
                ds0[n, h] = ds
    return dq, dk, dv, dg, dbeta, ds0


def wy_forward(ch, s):
    """The W/U form of the same chunk step."""
    u = ch.t @ (ch.beta[:, None] * ch.v)
    w = ch.t @ ((ch.beta * ch.eb)[:, None] * ch.k)
    d = u - w @ s
    return ch.eb[:, None] * (ch.q @ s) + ch.p @ d, ch.el * s + (ch.er[:, None] * ch.k).T @ d, w


def wy_backward(ch, s, do, ds2):
    """Gradients by way of dU, dW, dT (T^T dT T^T form); used to cross-check section 4.5."""
    u = ch.t @ (ch.beta[:, None] * ch.v)
    w = ch.t @ ((ch.beta * ch.eb)[:, None] * ch.k)
    dd = ch.p.T @ do + ch.er[:, None] * (ch.k @ ds2)
    du, dw = dd, -dd @ s.T
    ds = ch.el * ds2 + (ch.eb[:, None] * ch.q).T @ do - w.T @ dd
    dt = du @ (ch.beta[:, None] * ch.v).T + dw @ ((ch.beta * ch.eb)[:, None] * ch.k).T
    da = np.where(ch.strict, -(ch.t.T @ dt @ ch.t.T), 0)
    dvb, dkb = ch.t.T @ du, ch.t.T @ dw
    m = ch.beta[:, None] * ch.gamma * da
    dv = ch.beta[:, None] * dvb
    dbeta = (dvb * ch.v).sum(1) + (dkb * ch.k).sum(1) * ch.eb + (da * ch.kk * ch.gamma).sum(1)
    dk_t = (ch.beta * ch.eb)[:, None] * dkb + m @ ch.k + m.T @ ch.k
    return dv, dbeta, dk_t, ds, u - w @ s


# --------------------------------------------------------- section checks
def check_norms():
    x, w, z, dy = randn(9, 40), randn(40, scale=.3), randn(9, 40), randn(9, 40)
    tx = leaf(x)
    ref = tx * torch.rsqrt(tx.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + torch.tensor(w))
    check("2.1 RMSNorm (1+w): forward, dX", [(rmsnorm_fwd(x, w, 1e-6), ref), (rmsnorm_bwd(dy, x, w, 1e-6), grads(ref, dy, [tx])[0])])
    tx, tz = leaf(x), leaf(z)
    ref = torch.tensor(w) * (tx * torch.rsqrt(tx.pow(2).mean(-1, keepdim=True) + 1e-6)) * F.silu(tz)
    check("2.2 gated RMSNorm (plain w, SiLU gate after norm): forward, dX, dZ",
          [(gated_norm_fwd(x, z, w, 1e-6), ref), *zip(gated_norm_bwd(dy, x, z, w, 1e-6), grads(ref, dy, [tx, tz]))])
    for scale in (1.0, 1e-3):                         # 1e-3: eps is not negligible
        tx = leaf(x * scale)
        ref = tx * torch.rsqrt((tx * tx).sum(-1, keepdim=True) + 1e-6)
        check(f"2.3 L2 norm, eps inside the root (|x| scale {scale:g}): forward, dX",
              [(l2norm_fwd(x * scale), ref), (l2norm_bwd(dy, x * scale), grads(ref, dy, [tx])[0])])


def check_conv_gates():
    cu = [0, 1, 3, 20, 37]
    x, w, dy = randn(37, 12), randn(12, 4), randn(37, 12)
    tx = leaf(x)
    ref = torch.cat([F.silu(F.conv1d(tx[s:e].T[None], torch.tensor(w)[:, None], padding=3, groups=12)[0, :, :e - s]).T
                     for s, e in zip(cu[:-1], cu[1:])])
    out, pre = conv_silu_fwd(x, w, cu)
    check("2.4 causal depthwise conv(4)+SiLU, packed documents: forward, dX",
          [(out, ref), (conv_silu_bwd(dy, pre, w, cu), grads(ref, dy, [tx])[0])])
    a, al, dt, dg = randn(30, 6, scale=4), randn(6), randn(6), randn(30, 6)
    ta = leaf(a)
    ref = -torch.tensor(al).exp() * F.softplus(ta + torch.tensor(dt))
    check("2.5 decay g=-exp(A_log)*softplus(a+dt_bias): forward, dA",
          [(decay_fwd(a, al, dt), ref), (decay_bwd(dg, a, al, dt), grads(ref, dg, [ta])[0])])
    tb = leaf(a)
    ref = torch.sigmoid(tb)
    b = sigmoid(a)
    check("2.6 beta=sigmoid(b): forward, dB", [(b, ref), (dg * b * (1 - b), grads(ref, dg, [tb])[0])])


def torch_rope(x, pos3, rot, theta, section):
    """Reference with three position streams interleaved into the frequency axis."""
    inv = theta ** (-torch.arange(0, rot, 2) / rot)
    ang = pos3[:, :, None] * inv                       # [3,T,rot/2]
    stream = torch.zeros(rot // 2, dtype=torch.long)
    for ax in (1, 2):
        stream[ax:section[ax] * 3:3] = ax              # axis 0 everywhere else
    ang = ang.gather(0, stream[None, None, :].expand(1, ang.shape[1], -1))[0]
    c, s = torch.cos(ang).repeat(1, 2)[:, None], torch.sin(ang).repeat(1, 2)[:, None]
    xr, xp = x[..., :rot], x[..., rot:]
    x1, x2 = xr.chunk(2, -1)
    return torch.cat([xr * c + torch.cat([-x2, x1], -1) * s, xp], -1)


def check_rope_attention():
    rot, theta, t_all = 64, 1e7, 23
    x, dy = randn(t_all, 3, 256), randn(t_all, 3, 256)
    pos = np.arange(t_all, dtype=float) + 1000
    tx = leaf(x)
    ref = torch_rope(tx, torch.tensor(np.stack([pos] * 3)), rot, theta, [11, 11, 10])
    c, s = rope_tables(pos, rot, theta)
    check("2.7 partial rotary 64/256, text-only collapse of 3-stream interleave: fwd, bwd",
          [(rope(x, c, s), ref), (rope(dy, c, s, -1.0), grads(ref, dy, [tx])[0])])

    cu, hq, hk, d = [0, 1, 34, 70], 6, 2, 24
    q, k, v = randn(70, hq, d), randn(70, hk, d), randn(70, hk, d)
    gate, dout, scale = randn(70, hq, d), randn(70, hq, d), d ** -0.5
    tq, tk, tv, tg = leaf(q), leaf(k), leaf(v), leaf(gate)
    outs = []
    for b, e in zip(cu[:-1], cu[1:]):
        z = torch.einsum('ihd,jhd->hij', tq[b:e], tk[b:e].repeat_interleave(hq // hk, 1)) * scale
        z = z.masked_fill(torch.ones(e - b, e - b).triu(1).bool(), -math.inf)
        outs.append(torch.einsum('hij,jhd->ihd', z.softmax(-1), tv[b:e].repeat_interleave(hq // hk, 1)))
    ref_o = torch.cat(outs)
    ref = ref_o * torch.sigmoid(tg)
    o, lse = attn_fwd(q, k, v, cu, scale)
    sg = sigmoid(gate)
    out = o * sg
    do, dgate = dout * sg, dout * out * (1 - sg)       # only the gated output is needed
    delta = (dout * out).sum(-1)                       # equals <do, o>
    dq, dk, dv = attn_bwd(do, q, k, v, lse, delta, cu, scale)
    check("2.8 packed causal GQA attention, tiled online softmax: gated forward", [(o, ref_o), (out, ref)])
    check("2.8 attention backward from (gated out, LSE): dQ dK dV dGate",
          list(zip((dq, dk, dv, dgate), grads(ref, dout, [tq, tk, tv, tg]))))
    w = randn(2 * hq * d, 11)
    y = randn(5, 11) @ w.T
    qg = y.reshape(5, hq, 2, d)
    check("1.5 q_proj layout: head h has q rows [2hd*h, +hd), gate rows [2hd*h+hd, +hd)",
          [(qg[:, 1, 0], y[:, 2 * d:3 * d]), (qg[:, 1, 1], y[:, 3 * d:4 * d])])


def check_loss_lora_mlp():
    g, u, dh = randn(9, 20), randn(9, 20), randn(9, 20)
    tg, tu = leaf(g), leaf(u)
    check("2.9 SwiGLU backward", list(zip((dh * u * dsilu(g), dh * silu(g)), grads(F.silu(tg) * tu, dh, [tg, tu]))))
    h, w = randn(40, 16), randn(101, 16, scale=2)
    lab = RNG.integers(0, 101, 40)
    lab[RNG.random(40) < .5] = -100
    n = int((lab >= 0).sum())
    th = leaf(h)
    ref = F.cross_entropy(th @ torch.tensor(w).T, torch.tensor(lab), ignore_index=-100, reduction='sum') / n
    loss, dhid = cross_entropy(h, w, lab, n)
    check("2.10 cross entropy, labelled rows only, vocabulary tiles: loss, dH",
          [(np.array(loss), ref), (dhid, grads(ref, np.array(1.0), [th])[0])])
    x, w, a, b, dy = randn(13, 10), randn(14, 10), randn(4, 10), randn(14, 4), randn(13, 14)
    for nm, s in (("alpha/r", 32 / 4), ("alpha/sqrt(r)", 32 / 2)):
        tx, ta, tb = leaf(x), leaf(a), leaf(b)
        ref = F.linear(tx, torch.tensor(w) + s * tb @ ta)
        check(f"2.11 LoRA, scale {nm}: forward, dX dA dB",
              [(lora_fwd(x, w, a, b, s), ref), *zip(lora_bwd(dy, x, w, a, b, s), grads(ref, dy, [tx, ta, tb]))])


def gdr_inputs(cu, hk, hv, dk, dv, gfun):
    t = cu[-1]
    q = l2norm_fwd(randn(t, hk, dk) + .3) * dk ** -0.5
    k = l2norm_fwd(randn(t, hk, dk) + .3)
    return q, k, randn(t, hv, dv), gfun((t, hv)), sigmoid(randn(t, hv))


def check_gdr():
    hk, hv, dk, dv = 2, 6, 20, 12
    cases = {
        "one document, 3 x 64 exactly": ([0, 192], lambda s: -RNG.random(s) * .2),
        "length 150 (tail 22)": ([0, 150], lambda s: -RNG.random(s) * .2),
        "packed 1|64|65|3|77 with resets": ([0, 1, 65, 130, 133, 210], lambda s: -RNG.random(s) * .5),
        "packed, g uniform in [-20,0]": ([0, 70, 71, 200], lambda s: -RNG.random(s) * 20),
        "packed, g = 0 or -20": ([0, 70, 71, 200], lambda s: -20.0 * (RNG.random(s) < .1)),
        "no decay (g = 0)": ([0, 130], np.zeros),
    }
    for name, (cu, gfun) in cases.items():
        q, k, v, g, beta = gdr_inputs(cu, hk, hv, dk, dv, gfun)
        s0, do, dfin = (randn(*s) for s in ((len(cu) - 1, hv, dk, dv), (cu[-1], hv, dv), (len(cu) - 1, hv, dk, dv)))
        for init in (False, True):                     # zero state / given state and final-state cotangent
            lv = [leaf(t) for t in (q, k, v, g, beta, s0)]
            o, fin = gdr_recurrent(*lv[:5], cu, lv[5] if init else None)
            used = lv if init else lv[:5]
            ref = torch.autograd.grad((o * torch.tensor(do)).sum() + ((fin * torch.tensor(dfin)).sum() if init else 0), used)
            oc, fc, states = gdr_chunked(q, k, v, g, beta, cu, s0=s0 if init else None)
            got = gdr_chunked_bwd(q, k, v, g, beta, cu, states, do, dfin if init else None)
            tag = "S0 given" if init else "S0 = 0"
            check(f"4.3 chunked forward: {name}, {tag}", [(oc, o), (fc, fin)])
            check(f"4.5 chunked backward dq dk dv dg dbeta{' dS0' if init else ''}: {name}, {tag}", list(zip(got, ref)))
    # other chunk sizes and the equivalent W/U form
    cu = [0, 70, 71, 200]
    q, k, v, g, beta = gdr_inputs(cu, hk, hv, dk, dv, lambda s: -RNG.random(s))
    o64, f64, _ = gdr_chunked(q, k, v, g, beta, cu)
    check("4.3 chunk sizes 16, 32, 128 agree with 64",
          [p for c in (16, 32, 128) for p in zip(gdr_chunked(q, k, v, g, beta, cu, c)[:2], (o64, f64))])
    ch = Chunk(q[:64, 0], k[:64, 0], v[:64, 0], g[:64, 0], beta[:64, 0])
    s, do, ds2 = randn(dk, dv), randn(64, dv), randn(dk, dv)
    o1, d, e, s1 = ch.forward(s)
    o2, s2, w = wy_forward(ch, s)
    check("4.4 W/U form equals residual form: O, S'", [(o2, o1), (s2, s1)])
    dr, de, ds = ch.reverse_scan(do, ds2)
    gq, gk, gv, gb, gg = ch.local_grads(s, d, e, do, ds2, dr, de)
    dv_w, db_w, dk_w, ds_w, _ = wy_backward(ch, s, do, ds2)
    dpm = np.tril(do @ d.T) * ch.gamma
    check("4.5 T^T dT T^T route equals dA = -stril(dR D^T): dv, dbeta, dk, dS",
          [(dv_w, gv), (db_w, gb), (dk_w + dpm.T @ ch.q + ch.er[:, None] * (d @ ds2.T), gk), (ds_w, ds)])
    check("4.2 blocked inverse of I+A (16x16 substitution + merge)", [(ch.t, np.linalg.inv(np.eye(64) + ch.a))])
    check("4.5 identity dbeta = <dR, D>/beta, hence dlogit = (1-beta) <dR, D>",
          [((dr * d).sum(1) / ch.beta, gb), ((1 - ch.beta) * (dr * d).sum(1), gb * ch.beta * (1 - ch.beta))])
    # gradient of log decay as reads minus writes
    qdq = (ch.q * gq).sum(1)
    m = ch.beta[:, None] * ch.gamma * np.where(ch.strict, -(dr @ d.T), 0)
    reads = (ch.k * (m @ ch.k - ch.eb[:, None] * (de @ s.T))).sum(1)
    writes = (ch.k * (dpm.T @ ch.q + m.T @ ch.k + ch.er[:, None] * (d @ ds2.T))).sum(1)
    db = qdq + reads - writes
    db[-1] += ch.el * (s * ds2).sum() + (ch.k * (ch.er[:, None] * (d @ ds2.T))).sum()
    check("4.5 identity db = q.dq + k.dk(read) - k.dk(write)", [(np.cumsum(db[::-1])[::-1], gg)])
    check_two_level(q, k, v, g, beta)


def check_two_level(q, k, v, g, beta):
    """Segment-parallel scan over one document: forward and reverse."""
    cu, size, seg = [0, 200], 64, 2                    # segments of 2 chunks
    hv, grp = v.shape[1], v.shape[1] // k.shape[1]
    dk, dv = k.shape[2], v.shape[2]
    do = randn(*v.shape)
    o_ref, f_ref, st = gdr_chunked(q, k, v, g, beta, cu)
    ref_ds0 = gdr_chunked_bwd(q, k, v, g, beta, cu, st, do)[5]
    errs = []
    for h in range(hv):
        chunks = [make_chunk(q, k, v, g, beta, slice(b, e), h, grp, size) for _, b, e in chunk_table(cu, size)]
        dos = [pad_rows(do[b:e, h], size) for _, b, e in chunk_table(cu, size)]
        segs = [range(i, min(i + seg, len(chunks))) for i in range(0, len(chunks), seg)]
        maps = []
        for sg in segs:                                # pass 1, parallel over segments
            x = np.concatenate([np.zeros((dk, dv)), np.eye(dk)], 1)     # columns [R | P]
            for c in sg:
                ch = chunks[c]
                vx = np.concatenate([ch.v, np.zeros((size, dk))], 1)
                d = ch.t @ (ch.beta[:, None] * (vx - ch.eb[:, None] * (ch.k @ x)))
                x = ch.el * x + (ch.er[:, None] * ch.k).T @ d
            maps.append((x[:, :dv], x[:, dv:]))
        s, s_in = np.zeros((dk, dv)), []
        for r, p in maps:                              # pass 2, sequential over segments
            s_in.append(s)
            s = p @ s + r
        errs.append((s, f_ref[0, h]))
        for sg, s in zip(segs, s_in):                  # pass 3, parallel over segments
            for c in sg:
                errs.append((s, st[c, h]))
                oc, _, _, s = chunks[c].forward(s)
                b = c * size
                errs.append((oc[:200 - b], o_ref[b:b + size, h]))
        rb = []
        for sg in segs:                                # reverse, pass 1 with dS' = 0
            ds = np.zeros((dk, dv))
            for c in reversed(sg):
                ds = chunks[c].reverse_scan(dos[c], ds)[2]
            rb.append(ds)
        ds = np.zeros((dk, dv))
        for (r, p), b in zip(reversed(maps), reversed(rb)):
            ds = p.T @ ds + b
        errs.append((ds, ref_ds0[0, h]))
    check("4.8 two-level scan: states, outputs, reverse scan with P^T", errs)


# ---------------------------------------------------------- precision study
def bf16(x):
    return torch.tensor(x, dtype=torch.float32).bfloat16().double().numpy()


def f32(x):
    return np.asarray(x, np.float32).astype(np.float64)


def mixed_forward(q, k, v, g, beta, size, mm, t_store, s_carry, inv_mm=f32):
    """Chunked forward with rounding: mm rounds matrix operands, t_store rounds T,
    s_carry rounds the carried state, inv_mm rounds the triangular system."""
    s, out = np.zeros((k.shape[1], v.shape[1])), []
    for c in range(0, len(g), size):
        ch = Chunk(*(x[c:c + size] for x in (mm(q), mm(k), mm(v), f32(g), f32(beta))))
        t = t_store(np.linalg.inv(np.eye(size) + inv_mm(ch.a)))
        sm = mm(s)
        r = mm(ch.beta[:, None] * (ch.v - ch.eb[:, None] * f32(ch.k @ sm)))
        d = f32(t @ r)
        out.append(f32(ch.eb[:, None] * (ch.q @ sm) + mm(ch.p) @ mm(d)))
        s = s_carry(ch.el * s + mm(ch.er[:, None] * ch.k).T @ mm(d))
    return np.concatenate(out), s


def mixed_backward(q, k, v, g, beta, do, mm, size=64):
    """Chunked backward with rounding mm on every matrix operand and every stored tensor
    (T, S, D, dR, dS'); carried S and dS stay fp32.  Also returns dg from the dot-product
    identity evaluated on rounded dQ, dK."""
    q, k, v, do = mm(q), mm(k), mm(v), mm(do)
    s, saved, out = np.zeros((k.shape[1], v.shape[1])), [], []
    for c in range(0, len(g), size):
        ch = Chunk(*(x[c:c + size] for x in (q, k, v, f32(g), f32(beta))))
        ch.t, sm = mm(ch.t), mm(s)
        d = mm(ch.t @ mm(ch.beta[:, None] * (ch.v - ch.eb[:, None] * (ch.k @ sm))))
        saved.append((ch, sm, d, do[c:c + size]))
        s = ch.el * s + mm(ch.er[:, None] * ch.k).T @ d
    ds = np.zeros_like(s)
    for ch, sm, d, dc in reversed(saved):
        dsm = mm(ds)
        dr = mm(ch.t.T @ mm(mm(ch.p).T @ dc + ch.er[:, None] * (ch.k @ dsm)))
        de = mm(ch.beta[:, None] * dr)
        n = np.tril(dc @ d.T) * ch.gamma
        gm = np.where(ch.strict, -(dr @ d.T), 0)
        m = mm(ch.beta[:, None] * ch.gamma * gm)
        dq_i, dk_e, dk_s = ch.eb[:, None] * (dc @ sm.T), -ch.eb[:, None] * (de @ sm.T), ch.er[:, None] * (d @ dsm.T)
        dq, dkr, dkw = dq_i + mm(n) @ ch.k, m @ ch.k + dk_e, mm(n).T @ ch.q + m.T @ ch.k + dk_s
        x, y = np.where(ch.strict, n * (ch.q @ ch.k.T) + gm * ch.a, 0), (ch.k * dk_s).sum(1)
        db = (ch.q * dq_i).sum(1) + x.sum(1) - x.sum(0) - y + (ch.k * dk_e).sum(1)
        db2 = (ch.q * mm(dq)).sum(1) + (ch.k * mm(dkr)).sum(1) - (ch.k * mm(dkw)).sum(1)
        last = ch.el * (sm * dsm).sum() + y.sum()
        db[-1] += last
        db2[-1] += last
        rev = lambda t: np.cumsum(t[::-1])[::-1]
        out.append((dq, dkr + dkw, de, (1 - ch.beta) * (dr * d).sum(1), rev(db), rev(db2)))
        ds = ch.el * ds + mm(ch.eb[:, None] * ch.q).T @ dc - mm(ch.eb[:, None] * ch.k).T @ de
    return [np.concatenate(t) for t in zip(*out[::-1])]


def precision_study():
    t, dk, dv = 4096, 128, 128
    q = l2norm_fwd(silu(randn(t, dk))) * dk ** -0.5
    v, beta = silu(randn(t, dv)), sigmoid(randn(t) + 1)
    kinds = {"loose keys, decay ~e-2": (l2norm_fwd(silu(randn(t, dk))), 1e-2),
             "similar keys (cos ~.7), decay ~e-4": (l2norm_fwd(silu(randn(t, dk) + 1.5)), 1e-4)}
    same = lambda x: x
    rows = [("all fp32", (f32, f32, f32)),
            ("bf16 operands; T, S fp32", (bf16, f32, f32)),
            ("bf16 operands, T bf16; S fp32", (bf16, bf16, f32)),
            ("bf16 operands; A rounded to bf16 before solve", (bf16, bf16, f32, bf16)),
            ("bf16 operands, T bf16; S carried in bf16", (bf16, bf16, bf16))]
    for kname, (k, rate) in kinds.items():
        g = -np.exp(randn(t)) * rate
        qb, kb, vb = bf16(q), bf16(k), bf16(v)
        ref, sref = mixed_forward(qb, kb, vb, g, beta, 64, same, same, same, inv_mm=same)
        for nm, cfg in rows:
            o, s = mixed_forward(qb, kb, vb, g, beta, 64, *cfg)
            info(f"4.7 T={t} {kname}: {nm:<46s} O {np.linalg.norm(o - ref) / np.linalg.norm(ref):.1e}"
                 f" S {np.linalg.norm(s - sref) / np.linalg.norm(sref):.1e}")
        do = randn(t, dv)
        ref = mixed_backward(qb, kb, vb, g, beta, do, same)
        got = mixed_backward(qb, kb, vb, g, beta, do, bf16)
        fro = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(got, ref)]
        info(f"4.7 T={t} {kname}: backward, bf16 operands and stored tensors: "
             + " ".join(f"{nm} {e:.1e}" for nm, e in zip(("dq", "dk", "dv", "dlogit", "dg", "dg(dot form)"), fro)))
    # conditioning of the triangular system with nearly parallel keys and beta near 1
    k = l2norm_fwd(randn(1, dk) + .05 * randn(64, dk))
    ch = Chunk(k, k, k, np.full(64, -1e-4), np.full(64, .98))
    check("4.2 entries of T are bounded by 1 (64 nearly parallel keys, beta .98)", [max(0.0, np.abs(ch.t).max() - 1)])
    i, j = 50, 20
    prod = np.eye(dk)
    for m in range(j + 1, i):
        prod = (np.eye(dk) - ch.beta[m] * np.outer(ch.k[m], ch.k[m])) @ prod
    check("4.2 closed form of T_ij as a product of contractions", [abs(ch.t[i, j] + ch.beta[i] * ch.gamma[i, j] * ch.k[i] @ prod @ ch.k[j])])
    pw, big = ch.a.copy(), 0.0
    while np.abs(pw).max() > 0:
        big, pw = max(big, np.abs(pw).max()), pw @ pw
    info(f"4.2 same chunk: largest |T| {np.abs(ch.t).max():.2f}, largest entry of A^2, A^4, ... {big:.1e} (Neumann doubling unusable)")


# ------------------------------------------- whole tiny model, LoRA gradients
class Cfg:
    hidden, inter, vocab, eps = 32, 40, 61, 1e-6
    heads, kv, hd, rot, theta = 4, 2, 16, 4, 1e7
    hk, hv, dk, dv, kw = 2, 6, 8, 8, 4
    layers = ("lin", "lin", "lin", "full")
    rank, scale = 3, 2.0


def tiny_weights(c):
    p = {"embed": randn(c.vocab, c.hidden), "norm": randn(c.hidden, scale=.2), "lm_head": randn(c.vocab, c.hidden, scale=.3)}
    lora = {}

    def linear(name, out, inp, adapt=True):
        p[name] = randn(out, inp, scale=inp ** -.5)
        if adapt:
            lora[name + ".A"], lora[name + ".B"] = randn(c.rank, inp, scale=.3), randn(out, c.rank, scale=.3)

    for i, kind in enumerate(c.layers):
        n = f"{i}."
        p[n + "ln1"], p[n + "ln2"] = randn(c.hidden, scale=.2), randn(c.hidden, scale=.2)
        for nm, o, s in (("gate", c.inter, c.hidden), ("up", c.inter, c.hidden), ("down", c.hidden, c.inter)):
            linear(n + nm, o, s)
        if kind == "full":
            for nm, o, s in (("q", 2 * c.heads * c.hd, c.hidden), ("k", c.kv * c.hd, c.hidden), ("v", c.kv * c.hd, c.hidden),
                             ("o", c.hidden, c.heads * c.hd)):
                linear(n + nm, o, s)
            p[n + "qn"], p[n + "kn"] = randn(c.hd, scale=.2), randn(c.hd, scale=.2)
        else:
            qkv = 2 * c.hk * c.dk + c.hv * c.dv
            for nm, o, s in (("qkv", qkv, c.hidden), ("z", c.hv * c.dv, c.hidden), ("out", c.hidden, c.hv * c.dv)):
                linear(n + nm, o, s)
            for nm in ("b", "a"):
                linear(n + nm, c.hv, c.hidden, adapt=False)
            p[n + "conv"], p[n + "gn"] = randn(qkv, c.kw, scale=.5), 1 + randn(c.dv, scale=.2)
            p[n + "A_log"], p[n + "dt"] = randn(c.hv, scale=.7), randn(c.hv)
    return p, lora


def tiny_reference(c, p, lora, ids, labels, cu, pos, n_lab):
    """torch, naive; returns loss and autograd gradients of the LoRA tensors."""
    w = {k: torch.tensor(v) for k, v in p.items()}
    lo = {k: leaf(v) for k, v in lora.items()}
    t = len(ids)

    def lin(n, x):
        m = w[n] if n + ".A" not in lo else w[n] + c.scale * lo[n + ".B"] @ lo[n + ".A"]
        return x @ m.T

    def norm(x, g):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + c.eps) * g

    def l2(x):
        return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)

    x = w["embed"][torch.tensor(ids)]
    p3 = torch.tensor(np.stack([pos] * 3))
    for i, kind in enumerate(c.layers):
        n = f"{i}."
        h = norm(x, 1 + w[n + "ln1"])
        if kind == "full":
            qg = lin(n + "q", h).view(t, c.heads, 2 * c.hd)
            q, gate = qg[..., :c.hd], qg[..., c.hd:]
            k, v = lin(n + "k", h).view(t, c.kv, c.hd), lin(n + "v", h).view(t, c.kv, c.hd)
            q = torch_rope(norm(q, 1 + w[n + "qn"]), p3, c.rot, c.theta, [0, 0, 0])
            k = torch_rope(norm(k, 1 + w[n + "kn"]), p3, c.rot, c.theta, [0, 0, 0])
            rep = c.heads // c.kv
            outs = []
            for b, e in zip(cu[:-1], cu[1:]):
                z = torch.einsum('ihd,jhd->hij', q[b:e], k[b:e].repeat_interleave(rep, 1)) * c.hd ** -.5
                z = z.masked_fill(torch.ones(e - b, e - b).triu(1).bool(), -math.inf).softmax(-1)
                outs.append(torch.einsum('hij,jhd->ihd', z, v[b:e].repeat_interleave(rep, 1)))
            y = lin(n + "o", (torch.cat(outs) * torch.sigmoid(gate)).reshape(t, -1))
        else:
            m = lin(n + "qkv", h)
            m = torch.cat([F.silu(F.conv1d(m[b:e].T[None], w[n + "conv"][:, None], padding=c.kw - 1, groups=m.shape[1])[0, :, :e - b]).T
                           for b, e in zip(cu[:-1], cu[1:])])
            q, k, v = m.split([c.hk * c.dk, c.hk * c.dk, c.hv * c.dv], 1)
            beta = torch.sigmoid(lin(n + "b", h))
            g = -w[n + "A_log"].exp() * F.softplus(lin(n + "a", h) + w[n + "dt"])
            q, k = l2(q.reshape(t, c.hk, c.dk)) * c.dk ** -.5, l2(k.reshape(t, c.hk, c.dk))
            o, _ = gdr_recurrent(q, k, v.reshape(t, c.hv, c.dv), g, beta, cu)
            y = lin(n + "out", (norm(o, w[n + "gn"]) * F.silu(lin(n + "z", h).view(t, c.hv, c.dv))).reshape(t, -1))
        x = x + y
        h = norm(x, 1 + w[n + "ln2"])
        x = x + lin(n + "down", F.silu(lin(n + "gate", h)) * lin(n + "up", h))
    logits = norm(x, 1 + w["norm"]) @ w["lm_head"].T
    loss = F.cross_entropy(logits, torch.tensor(labels), ignore_index=-100, reduction='sum') / n_lab
    names = list(lo)
    return loss, dict(zip(names, torch.autograd.grad(loss, [lo[k] for k in names])))


class TinyManual:
    """The same model from the hand-written formulas.  Only the residual input of each
    layer is kept; every other activation is recomputed in the layer's backward."""

    def __init__(self, c, p, lora, cu, pos):
        self.c, self.p, self.lora, self.cu = c, p, lora, cu
        self.g = {k: np.zeros_like(v) for k, v in lora.items()}
        self.cos, self.sin = rope_tables(pos, c.rot, c.theta)

    def lin(self, n, x):
        if n + ".A" not in self.lora:
            return x @ self.p[n].T
        return lora_fwd(x, self.p[n], self.lora[n + ".A"], self.lora[n + ".B"], self.c.scale)

    def lin_bwd(self, n, dy, x):
        if n + ".A" not in self.lora:
            return dy @ self.p[n]
        dx, da, db = lora_bwd(dy, x, self.p[n], self.lora[n + ".A"], self.lora[n + ".B"], self.c.scale)
        self.g[n + ".A"] += da
        self.g[n + ".B"] += db
        return dx

    def full_fwd(self, n, h):
        c, t = self.c, len(h)
        qg = self.lin(n + "q", h).reshape(t, c.heads, 2, c.hd)
        q0, gate = qg[:, :, 0], qg[:, :, 1]
        k0, v = self.lin(n + "k", h).reshape(t, c.kv, c.hd), self.lin(n + "v", h).reshape(t, c.kv, c.hd)
        q = rope(rmsnorm_fwd(q0, self.p[n + "qn"], c.eps), self.cos, self.sin)
        k = rope(rmsnorm_fwd(k0, self.p[n + "kn"], c.eps), self.cos, self.sin)
        o, lse = attn_fwd(q, k, v, self.cu, c.hd ** -.5)
        out = o * sigmoid(gate)
        return self.lin(n + "o", out.reshape(t, -1)), (q0, gate, k0, v, q, k, lse, out)

    def full_bwd(self, n, dy, h, saved):
        c, t = self.c, len(h)
        q0, gate, k0, v, q, k, lse, out = saved
        dout = self.lin_bwd(n + "o", dy, out.reshape(t, -1)).reshape(out.shape)
        sg = sigmoid(gate)
        dq, dk, dv = attn_bwd(dout * sg, q, k, v, lse, (dout * out).sum(-1), self.cu, c.hd ** -.5)
        dq0 = rmsnorm_bwd(rope(dq, self.cos, self.sin, -1.0), q0, self.p[n + "qn"], c.eps)
        dk0 = rmsnorm_bwd(rope(dk, self.cos, self.sin, -1.0), k0, self.p[n + "kn"], c.eps)
        dqg = np.stack([dq0, dout * out * (1 - sg)], 2).reshape(t, -1)
        return (self.lin_bwd(n + "q", dqg, h) + self.lin_bwd(n + "k", dk0.reshape(t, -1), h)
                + self.lin_bwd(n + "v", dv.reshape(t, -1), h))

    def delta_fwd(self, n, h):
        c, t, p = self.c, len(h), self.p
        mixed, pre = conv_silu_fwd(self.lin(n + "qkv", h), p[n + "conv"], self.cu)
        nk = c.hk * c.dk
        q0, k0, v = mixed[:, :nk].reshape(t, c.hk, c.dk), mixed[:, nk:2 * nk].reshape(t, c.hk, c.dk), mixed[:, 2 * nk:].reshape(t, c.hv, c.dv)
        a, beta = self.lin(n + "a", h), sigmoid(self.lin(n + "b", h))
        g = decay_fwd(a, p[n + "A_log"], p[n + "dt"])
        q, k = l2norm_fwd(q0) * c.dk ** -.5, l2norm_fwd(k0)
        o, _, states = gdr_chunked(q, k, v, g, beta, self.cu)
        z = self.lin(n + "z", h).reshape(t, c.hv, c.dv)
        y = gated_norm_fwd(o, z, p[n + "gn"], c.eps).reshape(t, -1)
        return self.lin(n + "out", y), (pre, q0, k0, v, a, beta, g, q, k, o, states, z, y)

    def delta_bwd(self, n, dy, h, saved):
        c, t, p = self.c, len(h), self.p
        pre, q0, k0, v, a, beta, g, q, k, o, states, z, y = saved
        dnorm = self.lin_bwd(n + "out", dy, y).reshape(o.shape)
        do, dz = gated_norm_bwd(dnorm, o, z, p[n + "gn"], c.eps)
        dq, dk, dv, dg, dbeta, _ = gdr_chunked_bwd(q, k, v, g, beta, self.cu, states, do)
        dq0, dk0 = l2norm_bwd(dq * c.dk ** -.5, q0), l2norm_bwd(dk, k0)
        dmix = np.concatenate([x.reshape(t, -1) for x in (dq0, dk0, dv)], 1)
        dh = self.lin_bwd(n + "qkv", conv_silu_bwd(dmix, pre, p[n + "conv"], self.cu), h)
        dh += self.lin_bwd(n + "z", dz.reshape(t, -1), h)
        dh += self.lin_bwd(n + "b", dbeta * beta * (1 - beta), h)
        return dh + self.lin_bwd(n + "a", decay_bwd(dg, a, p[n + "A_log"], p[n + "dt"]), h)

    def run(self, ids, labels, n_lab):
        c, p = self.c, self.p
        x, inputs = p["embed"][ids], []
        for i, kind in enumerate(c.layers):
            n = f"{i}."
            inputs.append(x)
            mix = self.full_fwd if kind == "full" else self.delta_fwd
            x = x + mix(n, rmsnorm_fwd(x, p[n + "ln1"], c.eps))[0]
            h = rmsnorm_fwd(x, p[n + "ln2"], c.eps)
            x = x + self.lin(n + "down", silu(self.lin(n + "gate", h)) * self.lin(n + "up", h))
        loss, dhid = cross_entropy(rmsnorm_fwd(x, p["norm"], c.eps), p["lm_head"], labels, n_lab)
        dx = rmsnorm_bwd(dhid, x, p["norm"], c.eps)
        for i in range(len(c.layers) - 1, -1, -1):
            n, x0 = f"{i}.", inputs[i]
            full = c.layers[i] == "full"
            h1 = rmsnorm_fwd(x0, p[n + "ln1"], c.eps)                       # recompute
            y, saved = (self.full_fwd if full else self.delta_fwd)(n, h1)
            x1 = x0 + y
            h2 = rmsnorm_fwd(x1, p[n + "ln2"], c.eps)
            gt, up = self.lin(n + "gate", h2), self.lin(n + "up", h2)
            dact = self.lin_bwd(n + "down", dx, silu(gt) * up)
            dh2 = self.lin_bwd(n + "gate", dact * up * dsilu(gt), h2) + self.lin_bwd(n + "up", dact * silu(gt), h2)
            dx = dx + rmsnorm_bwd(dh2, x1, p[n + "ln2"], c.eps)
            dh1 = (self.full_bwd if full else self.delta_bwd)(n, dx, h1, saved)
            dx = dx + rmsnorm_bwd(dh1, x0, p[n + "ln1"], c.eps)
        return loss, self.g


def check_tiny_model():
    c, cu = Cfg, [0, 70, 71, 140]
    pos = np.concatenate([np.arange(e - b, dtype=float) for b, e in zip(cu[:-1], cu[1:])])
    ids = RNG.integers(0, c.vocab, cu[-1])
    labels = np.full(cu[-1], -100)
    for b, e in zip(cu[:-1], cu[1:]):
        labels[b:e - 1] = ids[b + 1:e]                  # shifted inside each document
    labels[10:30] = -100                                # a masked prompt span
    n_lab = int((labels >= 0).sum())
    p, lora = tiny_weights(c)
    loss, ref = tiny_reference(c, p, lora, ids, labels, cu, pos, n_lab)
    got_loss, got = TinyManual(c, p, lora, cu, pos).run(ids, labels, n_lab)
    check("3 whole 4-layer hybrid model, packed: loss", [(np.array(got_loss), loss)])
    check(f"3 whole 4-layer hybrid model: all {len(ref)} LoRA A/B gradients", [(got[k], ref[k]) for k in ref])


# -------------------------------------------------------------- optimiser
def dynamic_code(signed):
    """256-entry code book: 7 decades; decade i has 2^i (signed) or 2^(i+1) (unsigned)
    midpoints of an even split of [0.1, 1], times 10^(i-6); plus 0 and 1; sorted."""
    out = [0.0, 1.0]
    for i in range(7):
        n = 2 ** i if signed else 2 ** (i + 1)
        mids = (0.1 + 0.9 * (np.arange(n) + 0.5) / n) * 10.0 ** (i - 6)
        out += list(mids) + (list(-mids) if signed else [])
    return np.sort(np.array(out)).astype(np.float32)


def quantise(x, code, block=256):
    n = len(x)
    nb = -(-n // block)
    q, absmax = np.zeros(n, np.uint8), np.zeros(nb, np.float32)
    mid = (code[1:] + code[:-1]) * np.float32(.5)
    for b in range(nb):
        s = slice(b * block, min(n, (b + 1) * block))
        absmax[b] = np.abs(x[s]).max()
        if absmax[b] == 0:
            q[s] = np.searchsorted(code, 0)            # the exact-zero code
            continue
        q[s] = np.searchsorted(mid, x[s] / absmax[b])  # nearest code
    return q, absmax


def dequantise(q, absmax, code, block=256):
    return code[q] * np.repeat(absmax, block)[:len(q)]


def keep_sign(q, x, code):
    """A non-zero first moment must not change sign: a negative value that rounds to
    the zero code moves one code down."""
    return np.where((x < 0) & (code[q] >= 0), q - 1, q).astype(np.uint8)


def adam8_step(p, g, st, step, lr, b1, b2, eps, wd, floor_v=False):
    m = b1 * dequantise(st["m"], st["am"], CODE_S) + (1 - b1) * g
    v = b2 * dequantise(st["v"], st["av"], CODE_U) + (1 - b2) * g * g
    c1, c2 = 1 - b1 ** step, math.sqrt(1 - b2 ** step)
    p = p - lr * c2 / c1 * m / (np.sqrt(v) + eps * c2)
    p = p * (1 - lr * wd)
    st["m"], st["am"] = quantise(m, CODE_S)
    st["m"] = keep_sign(st["m"], m, CODE_S)
    st["v"], st["av"] = quantise(v, CODE_U)
    if floor_v:                                        # optional guard of section 5.3
        st["v"] = np.where((v > 0) & (st["v"] == 0), 1, st["v"]).astype(np.uint8)
    return p


CODE_S, CODE_U = dynamic_code(True), dynamic_code(False)


def check_optimiser():
    facts_s = [len(CODE_S) == 256, len(set(CODE_S)) == 256, CODE_S[127] == 0, CODE_S[255] == 1,
               abs(CODE_S[0] + 0.99296875) < 1e-7, abs(CODE_S[254] - 0.99296875) < 1e-7, abs(CODE_S[128] - 5.5e-7) < 1e-13,
               np.array_equal(CODE_S[:127], -CODE_S[128:255][::-1])]
    facts_u = [len(CODE_U) == 256, len(set(CODE_U)) == 256, CODE_U[0] == 0, CODE_U[255] == 1,
               abs(CODE_U[254] - 0.996484375) < 1e-7, abs(CODE_U[1] - 3.25e-7) < 1e-13]
    check("5.1 signed code book: 256 distinct, zero at 127, one at 255, odd-symmetric", [0.0 if all(facts_s) else 1.0])
    check("5.1 unsigned code book: 256 distinct, zero at 0, one at 255", [0.0 if all(facts_u) else 1.0])
    x = randn(1000).astype(np.float32)
    q, a = quantise(x, CODE_S)
    brute = np.array([np.argmin(np.abs(CODE_S.astype(float) - float(x[i]) / float(a[i // 256]))) for i in range(1000)])
    check("5.2 midpoint search picks the nearest code (index distance / 256)", [np.abs(q.astype(int) - brute).max() / 256], 1e-9)
    back = dequantise(q, a, CODE_S)
    big = np.abs(x) > .1 * np.repeat(a, 256)[:1000]
    check("5.2 round-trip error for |x| > 0.1 absmax (bound 7% of value)", [float(np.max(np.abs(back - x)[big] / np.abs(x)[big]))], 0.07)
    code = np.searchsorted(CODE_S, 0)
    zq, za = quantise(np.zeros(300, np.float32), CODE_S)
    check("5.2 all-zero block gives the zero code and absmax 0", [float(np.any(zq != code) or np.any(za != 0))])
    # AdamW order against torch (fp32 state path; torch decays before the step)
    p0, lr, wd = randn(50), 1e-2, .1
    tp = torch.nn.Parameter(torch.tensor(p0))
    opt = torch.optim.AdamW([tp], lr=lr, betas=(.9, .999), eps=1e-8, weight_decay=wd)
    pa, pb, m, v = p0.copy(), p0.copy(), 0.0, 0.0
    for step in range(1, 21):
        g = randn(50)
        m, v = .9 * m + .1 * g, .999 * v + .001 * g * g
        c1, c2 = 1 - .9 ** step, math.sqrt(1 - .999 ** step)
        upd = lr * c2 / c1 * m / (np.sqrt(v) + 1e-8 * c2)
        pa = pa * (1 - lr * wd) - upd                  # decay, then step
        pb = (pb - upd) * (1 - lr * wd)                # step, then decay (section 5.3)
        tp.grad = torch.tensor(g)
        opt.step()
    check("5.3 AdamW step form equals torch.optim.AdamW (decay first)", [(pa, tp)])
    info(f"5.3 step-then-decay differs from decay-then-step by {rel(pb, tp):.1e} after 20 steps (order lr^2*wd)")
    # 8-bit state on a noisy quadratic
    n = 5000
    target, p8 = randn(n), np.zeros(n)
    nb = -(-n // 256)
    st = {"m": np.full(n, 127, np.uint8), "am": np.zeros(nb, np.float32), "v": np.zeros(n, np.uint8), "av": np.zeros(nb, np.float32)}
    p32, m, v = np.zeros(n), 0.0, 0.0
    for step in range(1, 301):
        noise = randn(n, scale=.1)
        p8 = adam8_step(p8, p8 - target + noise, st, step, 2e-2, .9, .999, 1e-8, 0.0)
        g = p32 - target + noise
        m, v = .9 * m + .1 * g, .999 * v + .001 * g * g
        p32 = p32 - 2e-2 * math.sqrt(1 - .999 ** step) / (1 - .9 ** step) * m / (np.sqrt(v) + 1e-8 * math.sqrt(1 - .999 ** step))
    l8, l32 = ((p8 - target) ** 2).mean(), ((p32 - target) ** 2).mean()
    info(f"5.4 noisy quadratic, 300 steps: mean squared error fp32 state {l32:.2e}, 8-bit state {l8:.2e}")
    check("5.4 8-bit state reaches 2x of the fp32-state error", [l8 / l32], 2.0)


def check_small_second_moments():
    """Gradient scales spread over six decades inside each block."""
    n, steps, worst = 1024, 300, {}
    scale = 10.0 ** (-6 * RNG.random(n))
    g_all = randn(steps, n) * scale
    for name, floor_v in (("published rule", False), ("floor v at code 1", True)):
        st = {"m": np.full(n, 127, np.uint8), "am": np.zeros(4, np.float32), "v": np.zeros(n, np.uint8), "av": np.zeros(4, np.float32)}
        step_of = lambda k: adam8_step(np.zeros(n), g_all[k], st, k + 1, 1.0, .9, .999, 1e-8, 0.0, floor_v)
        worst[name] = max(np.abs(step_of(k)).max() for k in range(steps))
    m, v, worst["fp32 state"] = 0.0, 0.0, 0.0
    for k in range(steps):
        m, v = .9 * m + .1 * g_all[k], .999 * v + .001 * g_all[k] ** 2
        c2 = math.sqrt(1 - .999 ** (k + 1))
        worst["fp32 state"] = max(worst["fp32 state"], np.abs(c2 / (1 - .9 ** (k + 1)) * m / (np.sqrt(v) + c2 * 1e-8)).max())
    info("5.3 largest |update|/lr, mixed scales in a block: " + ", ".join(f"{k} {x:.1f}" for k, x in worst.items()))
    check("5.3 guard keeps updates within 2x of the fp32 state", [worst["floor v at code 1"] / worst["fp32 state"]], 2.0)


# ------------------------------------------------------------------- counts
def counts():
    hid, inter, vocab, heads, kv, hd = 5120, 17408, 248320, 24, 4, 256
    hk, hv, dk, dv, kw, n_lin, n_full, r = 16, 48, 128, 128, 4, 48, 16, 16
    qkv, zdim = 2 * hk * dk + hv * dv, hv * dv
    lin = {"in_proj_qkv": (qkv, hid), "in_proj_z": (zdim, hid), "in_proj_b": (hv, hid), "in_proj_a": (hv, hid), "out_proj": (hid, zdim)}
    full = {"q_proj": (2 * heads * hd, hid), "k_proj": (kv * hd, hid), "v_proj": (kv * hd, hid), "o_proj": (hid, heads * hd)}
    mlp = {"gate_proj": (inter, hid), "up_proj": (inter, hid), "down_proj": (hid, inter)}
    size = lambda d: sum(o * i for o, i in d.values())
    lin_mix = size(lin) + qkv * kw + 2 * hv + dv
    full_mix = size(full) + 2 * hd
    per_lin, per_full = lin_mix + size(mlp) + 2 * hid, full_mix + size(mlp) + 2 * hid
    total = n_lin * per_lin + n_full * per_full + hid + 2 * vocab * hid
    info(f"counts: delta mixer {lin_mix:,}; attention mixer {full_mix:,}; MLP {size(mlp):,} per layer")
    info(f"counts: linear layer {per_lin:,}; full layer {per_full:,}; embed {vocab * hid:,}; lm_head {vocab * hid:,}; final norm {hid:,}")
    info(f"counts: layers {n_lin * per_lin + n_full * per_full:,}; text model {total:,}; tensors {n_lin * 14 + n_full * 11 + 3}")
    lora = lambda d, names: sum(r * (d[n][0] + d[n][1]) for n in names)
    lm, lf, ll = lora(mlp, mlp), lora(full, full), lora(lin, ("in_proj_qkv", "in_proj_z", "out_proj"))
    n_lora = (n_lin + n_full) * lm + n_full * lf + n_lin * ll
    info(f"counts: LoRA r16 per linear layer {lm + ll:,} (mixer {ll:,} + MLP {lm:,}); per full layer {lm + lf:,} (mixer {lf:,})")
    info(f"counts: LoRA r16 total {n_lora:,} ({2 * ((n_lin + n_full) * 3 + n_full * 4 + n_lin * 3)} tensors)")
    c = 64
    fwd_head = 6 * dk * dv + 4 * c * (dk + dv) + c * c // 3
    bwd_head = 12 * dk * dv + 10 * c * dk + 8 * c * dv
    rec_head = 4 * dk * dv + 2 * c * dk + 2 * c * dv + c * c // 3
    dense_lin, dense_full = 2 * (size(lin) + size(mlp)), 2 * (size(full) + size(mlp))
    info(f"flops/token: dense linear layer {dense_lin:,}, full layer {dense_full:,}, lm_head {2 * vocab * hid:,}")
    info(f"flops/token: delta rule per value head fwd {fwd_head:,}, recompute {rec_head:,}, bwd {bwd_head:,}; "
         f"per layer fwd {fwd_head * hv:,}, bwd+recompute {(bwd_head + rec_head) * hv:,}")
    info("flops/token: whole forward without attention scores "
         f"{n_lin * (dense_lin + fwd_head * hv) + n_full * dense_full:,} (+ lm_head on labelled rows)")
    info(f"flops/token: attention scores per full layer, context n: fwd {4 * heads * hd:,}*n, bwd {10 * heads * hd:,}*n")
    kk, vv, tm, st, gb = 2 * hk * dk, 2 * hv * dv, 2 * hv * c, 2 * hv * dk * dv // c, 8 * hv   # bf16 k, v, T, S; fp32 g+beta
    f1, f2, f3 = kk + gb + tm, kk + vv + tm + gb + st + vv, 2 * kk + vv + st + gb + vv
    b2, b3 = 2 * kk + vv + tm + gb + st + vv, 2 * kk + 3 * vv + 2 * st + gb + 2 * kk + vv + gb
    info(f"bytes/token/layer, delta rule: F1 {f1:,} F2 {f2:,} F3 {f3:,}; backward F1+F2 {f1 + f2:,} B2 {b2:,} B3 {b3:,}; S alone {st:,}")
    safe = (vocab * hid * 2 + n_lin * per_lin + n_full * per_full + hid)
    check("1.9 parameter total agrees by two groupings", [abs(total - safe)])


def main():
    check_norms()
    check_conv_gates()
    check_rope_attention()
    check_loss_lora_mlp()
    check_gdr()
    precision_study()
    check_tiny_model()
    check_optimiser()
    check_small_second_moments()
    counts()
    print("all checks passed" if not FAILED else f"{len(FAILED)} FAILED: {FAILED}")
    return 1 if FAILED else 0


if __name__ == "__main__":
    sys.exit(main())
